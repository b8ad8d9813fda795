"""What becomes of alerts by what their provider says."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from notifier.domain.audience.bitmap import count
from notifier.domain.delivery.slice import Step
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Device, DeviceId, FirebaseToken
from notifier.domain.push.receipt import ConfigError, DropToken, PayloadError, Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import TRIES, AlertOutcome
from notifier.wiring.delivery import build_slice_worker
from tests.flow.alert_counts import SOON, alert_count, alert_counts, alert_outcomes, phone
from tests.support.in_memory_system import Stage


def test_who_could_not_be_reached_is_tried_again_and_nobody_else_is() -> None:
    stage = Stage()
    again = RetryAt(at=stage.ground.clock.now() + SOON, reason="busy")
    stage.ground.phones.says[phone(stage, "lee").id] = [again]
    stage.mention("nova")
    stage.deliver(rounds=60)
    assert (set(alert_counts(stage).values()), alert_outcomes(stage, "lee")) == ({1}, [AlertOutcome.RETRY])
    assert len(alert_counts(stage)) == 3


def test_what_a_provider_asks_for_is_waited_for() -> None:
    stage = Stage()
    wait = timedelta(minutes=10)
    stage.ground.phones.says[phone(stage, "lee").id] = [RetryAt(at=stage.ground.clock.now() + wait, reason="429")]
    stage.mention("nova")
    stage.deliver_others()
    stage.ground.clock.advance(wait - timedelta(seconds=30))
    stage.deliver_others()
    assert alert_count(stage, "lee") == 0
    stage.deliver(rounds=60)
    assert alert_count(stage, "lee") == 1


def test_after_three_tries_an_alert_is_in_the_app_alone() -> None:
    stage = Stage()
    busy = RetryAt(at=stage.ground.clock.now(), reason="busy")
    stage.ground.phones.says[phone(stage, "lee").id] = [busy] * 9
    stage.mention("nova")
    stage.deliver(rounds=150)
    assert alert_count(stage, "lee") == 0
    assert alert_outcomes(stage, "lee") == [AlertOutcome.RETRY] * (TRIES - 1) + [AlertOutcome.GIVEN_UP]


def test_who_asks_for_more_than_half_an_hour_is_asked_no_more() -> None:
    stage = Stage()
    late = RetryAt(at=stage.ground.clock.now() + timedelta(hours=1), reason="429")
    stage.ground.phones.says[phone(stage, "lee").id] = [late]
    stage.mention("nova")
    stage.deliver()
    assert (alert_count(stage, "lee"), alert_outcomes(stage, "lee")) == (0, [AlertOutcome.GIVEN_UP])


def test_what_may_have_arrived_is_sent_again_with_the_same_ids() -> None:
    stage = Stage()
    stage.ground.phones.says[phone(stage, "lee").id] = [Unknown(reason="no answer")]
    stage.mention("nova")
    stage.deliver(rounds=60)
    lee = phone(stage, "lee").id
    sent = [alert for alert, device in stage.ground.phones.arrived if device.id == lee]
    assert len(sent) == 2
    assert len({(alert.id, alert.collapse_id) for alert in sent}) == 1


def test_a_token_that_is_gone_is_dropped_and_rings_no_more() -> None:
    stage = Stage()
    stage.ground.phones.says[phone(stage, "lee").id] = [DropToken(reason="UNREGISTERED")]
    stage.mention("nova")
    stage.deliver()
    lee = Member(stage.scene.people["lee"].member)
    assert (stage.ground.devices.of([lee]), alert_outcomes(stage, "lee")) == ({}, [AlertOutcome.DROPPED])


def test_a_drop_of_before_the_device_was_registered_again_doesn_t_count() -> None:
    stage = Stage()
    old = phone(stage, "lee")
    stage.ground.phones.says[old.id] = [DropToken(reason="410", at=old.registered_at - timedelta(hours=1))]
    stage.mention("nova")
    stage.deliver()
    assert phone(stage, "lee") == old


def test_a_payload_that_is_refused_is_nobody_else_s_trouble() -> None:
    stage = Stage()
    stage.ground.phones.says[phone(stage, "kim").id] = [PayloadError(reason="too large")]
    stage.mention("nova")
    stage.deliver()
    assert (alert_count(stage, "kim"), alert_count(stage, "lee"), alert_outcomes(stage, "kim")) == (
        0,
        1,
        [AlertOutcome.REFUSED],
    )


def test_a_wrong_key_stops_all_alerts_costs_no_token_and_once_it_is_mended_everybody_is_told() -> None:
    stage = Stage()
    wrong = ConfigError(reason="InvalidProviderToken")
    for name in ("kim", "lee", "roy"):
        stage.ground.phones.says[phone(stage, name).id] = [wrong]
    stage.mention("nova")
    work = build_slice_worker(stage.system())
    for _ in range(5):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=1)
    refused = sum(1 - len(said) for said in stage.ground.phones.says.values())
    assert (refused, stage.ground.phones.arrived) == (1, [])
    for _ in range(120):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=1)
    assert not stage.ground.ledger.open()
    assert {alert_count(stage, name) for name in ("kim", "lee", "roy")} == {1}


def test_a_provider_that_is_away_for_the_whole_burst_rings_everybody_once_it_is_back() -> None:
    stage = Stage()
    stage.ground.phones.away = True
    stage.mention("nova")
    stage.deliver_others()
    assert stage.sees("lee") == ["mention:nova#1"]
    assert not stage.ground.phones.arrived
    stage.ground.phones.away = False
    stage.deliver(rounds=120)
    assert (set(alert_counts(stage).values()), len(alert_counts(stage))) == ({1}, 3)


def test_while_a_provider_is_left_alone_nobody_s_half_hour_begins() -> None:
    stage = Stage()
    names = ("kim", "roy")  # of one tier and shard, each in a window of their own
    refused: dict[DeviceId, list[Receipt]] = {
        phone(stage, name).id: [ConfigError(reason="key")] * 999 for name in names
    }
    stage.ground.phones.says.update(refused)
    work = build_slice_worker(stage.system())
    push: Any = work.doings[Step.FCM]
    push = replace(push, batch_devices=1, selection=replace(push.selection, batch_devices=1))
    work = replace(work, doings={**work.doings, Step.FCM: push})
    stage.mention("nova")
    for seconds in [1] * 5 + [31] * 70 + [0] + [31] * 5:
        if not seconds:
            refused[phone(stage, "kim").id].clear()
            refused[phone(stage, "roy").id].clear()
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=seconds)
    # Of one the provider was asked in vain for all that time, of the other never; neither has lost anything by it.
    assert (alert_count(stage, "kim"), alert_count(stage, "roy")) == (1, 1)
    assert AlertOutcome.GIVEN_UP not in [*alert_outcomes(stage, "kim"), *alert_outcomes(stage, "roy")]


def test_while_the_record_of_what_was_sent_cannot_be_read_nothing_is_sent() -> None:
    from notifier.domain.errors import StoreUnavailable
    from tests.support.failing_ports import Refusing

    stage = Stage()
    stage.mention("nova")
    refusing: Any = Refusing(stage.ground.sent, StoreUnavailable)
    for _ in range(4):
        stage.dispatch()
        stage.work(by=build_slice_worker(stage.system(sent=refusing)))
        stage.pass_time(seconds=1)
    assert stage.ground.phones.arrived == []
    stage.pass_time(seconds=60)
    stage.deliver(rounds=60)
    assert len(alert_counts(stage)) == 3


def test_somebody_with_many_devices_is_told_on_each_once() -> None:
    stage = Stage()
    lee = Member(stage.scene.people["lee"].member)
    now = stage.ground.clock.now()
    more = [Device(member=lee, address=FirebaseToken(token=f"more-{n}"), registered_at=now) for n in range(10)]
    stage.ground.devices.write(more)
    stage.mention("nova")
    stage.deliver()
    assert (len(alert_counts(stage)), set(alert_counts(stage).values())) == (13, {1})


def test_an_account_with_ten_thousand_devices_is_told_on_each_once_and_keeps_nobody_waiting() -> None:
    """As no registration lets anybody have; but the store is others' to fill, too."""
    stage = Stage()
    lee = Member(stage.scene.people["lee"].member)
    now = stage.ground.clock.now()
    more = [Device(member=lee, address=FirebaseToken(token=f"more-{n}"), registered_at=now) for n in range(10_000)]
    stage.ground.devices.write(more)
    stage.mention("nova")
    stage.deliver(rounds=60)
    assert (len(alert_counts(stage)), set(alert_counts(stage).values())) == (10_003, {1})
    windows = stage.ground.sent.read(stage.bursts()[0], Platform.FCM, [0, 1])
    assert sum(bool(count(window.people)) for some in windows.values() for window in some) <= 3
