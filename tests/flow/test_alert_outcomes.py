"""Outcomes of alerts by the receipt of their provider."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from notifier.domain.audience.bitmap import count
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Device, DeviceId, FirebaseToken
from notifier.domain.push.receipt import ConfigError, DropDevice, PayloadError, Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import MAX_ALERT_ATTEMPTS, AlertOutcome
from notifier.wiring.delivery import build_slice_worker
from tests.flow.alert_counts_and_outcomes import SOON, alert_count, alert_counts, alert_outcomes, phone
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.in_memory_system import Stage


def test_retry_goes_only_to_the_failed_device() -> None:
    stage = Stage()
    retry = RetryAt(at=stage.state.clock.now() + SOON, reason="busy")
    stage.state.phones.answers[phone(stage, "lee").id] = [retry]
    stage.mention("nova")
    stage.deliver(rounds=60)
    assert (set(alert_counts(stage).values()), alert_outcomes(stage, "lee")) == ({1}, [AlertOutcome.RETRY])
    assert len(alert_counts(stage)) == 3


def test_retry_waits_for_the_time_that_the_provider_sets() -> None:
    stage = Stage()
    wait = timedelta(minutes=10)
    stage.state.phones.answers[phone(stage, "lee").id] = [RetryAt(at=stage.state.clock.now() + wait, reason="429")]
    stage.mention("nova")
    stage.deliver_others()
    stage.state.clock.advance(wait - timedelta(seconds=30))
    stage.deliver_others()
    assert alert_count(stage, "lee") == 0
    stage.deliver(rounds=60)
    assert alert_count(stage, "lee") == 1


def test_alert_is_given_up_after_three_tries() -> None:
    stage = Stage()
    busy = RetryAt(at=stage.state.clock.now(), reason="busy")
    stage.state.phones.answers[phone(stage, "lee").id] = [busy] * 9
    stage.mention("nova")
    stage.deliver(rounds=150)
    assert alert_count(stage, "lee") == 0
    assert alert_outcomes(stage, "lee") == [AlertOutcome.RETRY] * (MAX_ALERT_ATTEMPTS - 1) + [AlertOutcome.GIVEN_UP]


def test_alert_with_too_late_a_retry_time_is_given_up() -> None:
    stage = Stage()
    late = RetryAt(at=stage.state.clock.now() + timedelta(hours=1), reason="429")
    stage.state.phones.answers[phone(stage, "lee").id] = [late]
    stage.mention("nova")
    stage.deliver()
    assert (alert_count(stage, "lee"), alert_outcomes(stage, "lee")) == (0, [AlertOutcome.GIVEN_UP])


def test_alert_without_a_receipt_is_resent_with_the_same_ids() -> None:
    stage = Stage()
    stage.state.phones.answers[phone(stage, "lee").id] = [Unknown(reason="no answer")]
    stage.mention("nova")
    stage.deliver(rounds=60)
    lee = phone(stage, "lee").id
    sent = [alert for alert, device in stage.state.phones.arrived if device.id == lee]
    assert len(sent) == 2
    assert len({(alert.id, alert.collapse_id) for alert in sent}) == 1


def test_device_with_invalid_token_is_dropped() -> None:
    stage = Stage()
    stage.state.phones.answers[phone(stage, "lee").id] = [DropDevice(reason="UNREGISTERED")]
    stage.mention("nova")
    stage.deliver()
    lee = Member(stage.population.people["lee"].member)
    assert (stage.state.devices.by_member([lee]), alert_outcomes(stage, "lee")) == ({}, [AlertOutcome.DROPPED])


def test_drop_from_before_a_registration_keeps_the_device() -> None:
    stage = Stage()
    old = phone(stage, "lee")
    stage.state.phones.answers[old.id] = [DropDevice(reason="410", at=old.registered_at - timedelta(hours=1))]
    stage.mention("nova")
    stage.deliver()
    assert phone(stage, "lee") == old


def test_refused_payload_does_not_affect_other_users() -> None:
    stage = Stage()
    stage.state.phones.answers[phone(stage, "kim").id] = [PayloadError(reason="too large")]
    stage.mention("nova")
    stage.deliver()
    assert (alert_count(stage, "kim"), alert_count(stage, "lee"), alert_outcomes(stage, "kim")) == (
        0,
        1,
        [AlertOutcome.REFUSED],
    )


def test_wrong_key_stops_alerts_until_it_is_fixed() -> None:
    stage = Stage()
    wrong = ConfigError(reason="InvalidProviderToken")
    for name in ("kim", "lee", "roy"):
        stage.state.phones.answers[phone(stage, name).id] = [wrong]
    stage.mention("nova")
    work = build_slice_worker(stage.system())
    for _ in range(5):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=1)
    refused = sum(1 - len(receipts) for receipts in stage.state.phones.answers.values())
    assert (refused, stage.state.phones.arrived) == (1, [])
    for _ in range(120):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=1)
    assert not stage.state.ledger.unfinished_bursts()
    assert {alert_count(stage, name) for name in ("kim", "lee", "roy")} == {1}


def test_alerts_are_sent_once_after_a_provider_outage() -> None:
    stage = Stage()
    stage.state.phones.away = True
    stage.mention("nova")
    stage.deliver_others()
    assert stage.sees("lee") == ["mention:nova#1"]
    assert not stage.state.phones.arrived
    stage.state.phones.away = False
    stage.deliver(rounds=120)
    assert (set(alert_counts(stage).values()), len(alert_counts(stage))) == ({1}, 3)


def test_open_circuit_does_not_start_the_retry_window() -> None:
    stage = Stage()
    names = ("kim", "roy")  # of one tier and shard, each in a send batch of their own
    refused: dict[DeviceId, list[Receipt]] = {
        phone(stage, name).id: [ConfigError(reason="key")] * 999 for name in names
    }
    stage.state.phones.answers.update(refused)
    work = build_slice_worker(stage.system())
    push: Any = work.handlers[Step.FCM]
    push = replace(push, devices_per_group=1, selection=replace(push.selection, devices_per_batch=1))
    work = replace(work, handlers={**work.handlers, Step.FCM: push})
    stage.mention("nova")
    for seconds in [1] * 5 + [31] * 70 + [0] + [31] * 5:
        if not seconds:
            refused[phone(stage, "kim").id].clear()
            refused[phone(stage, "roy").id].clear()
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=seconds)
    # One was tried in vain all that time, the other never. Neither alert is given up.
    assert (alert_count(stage, "kim"), alert_count(stage, "roy")) == (1, 1)
    assert AlertOutcome.GIVEN_UP not in [*alert_outcomes(stage, "kim"), *alert_outcomes(stage, "roy")]


def test_unreadable_send_log_stops_alerts() -> None:
    stage = Stage()
    stage.mention("nova")
    refusing: Any = FailingPort(stage.state.send_log, StoreUnavailable)
    for _ in range(4):
        stage.dispatch()
        stage.work(by=build_slice_worker(stage.system(send_log=refusing)))
        stage.pass_time(seconds=1)
    assert stage.state.phones.arrived == []
    stage.pass_time(seconds=60)
    stage.deliver(rounds=60)
    assert len(alert_counts(stage)) == 3


def test_user_with_many_devices_gets_one_alert_on_each() -> None:
    stage = Stage()
    lee = Member(stage.population.people["lee"].member)
    now = stage.state.clock.now()
    devices = [Device(member=lee, address=FirebaseToken(token=f"more-{n}"), registered_at=now) for n in range(10)]
    stage.state.devices.write(devices)
    stage.mention("nova")
    stage.deliver()
    assert (len(alert_counts(stage)), set(alert_counts(stage).values())) == (13, {1})


def test_ten_thousand_devices_of_one_user_take_at_most_three_batches() -> None:
    """Registration prevents this, but other writers fill the store, too."""
    stage = Stage()
    lee = Member(stage.population.people["lee"].member)
    now = stage.state.clock.now()
    devices = [Device(member=lee, address=FirebaseToken(token=f"more-{n}"), registered_at=now) for n in range(10_000)]
    stage.state.devices.write(devices)
    stage.mention("nova")
    stage.deliver(rounds=60)
    assert (len(alert_counts(stage)), set(alert_counts(stage).values())) == (10_003, {1})
    send_log = stage.state.send_log.read(stage.bursts()[0], Platform.FCM, [0, 1])
    assert sum(bool(count(batch.members)) for batches in send_log.values() for batch in batches) <= 3
