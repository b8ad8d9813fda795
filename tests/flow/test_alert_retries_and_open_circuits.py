"""Alerts are retried for 30 minutes, and wait behind open circuits."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from notifier.domain.audience.bitmap import count
from notifier.domain.delivery.slice_and_pool import TIME_SHARE, Pool, Step
from notifier.domain.ids import Member, Platform
from notifier.domain.push.circuit_breaker import BreakerSettings, Open
from notifier.domain.push.device import Device, WebSubscription
from notifier.domain.push.receipt import ConfigError, Receipt, RetryAt
from notifier.domain.push.send_log import MAX_ALERT_ATTEMPTS, RETRY_WINDOW, AlertOutcome
from notifier.flow.delivery.slice_worker import SliceWorker
from notifier.flow.push.circuit_breakers import CircuitBreakers
from notifier.wiring.delivery import build_slice_worker
from tests.flow.alert_counts_and_outcomes import SOON, alert_count, alert_outcomes, phone
from tests.flow.alerts_of_one_user import KIM, NIGHT, QUIET
from tests.flow.test_alerts_after_crash import Killed, KillsWorker
from tests.flow.test_summary_alerts_and_frequency_cap import alerts_of
from tests.support.in_memory_system import Stage

DOWN, UP = "away.example", "well.example"
WRONG = ConfigError(reason="BadJwtToken")


def browser(stage: Stage, name: str, host: str, *receipts: Receipt) -> Device:
    address = WebSubscription(endpoint=f"https://{host}/{name}", key=b"k" * 65, secret=b"s" * 16)
    member, now = Member(stage.population.people[name].member), stage.state.clock.now()
    device = Device(member=member, address=address, registered_at=now - timedelta(hours=1))
    stage.state.devices.write([device])
    stage.state.phones.answers[device.id] = [*receipts]
    return device


def worker_with_browsers(stage: Stage) -> SliceWorker:
    phones, both = stage.state.phones, [Platform.FCM, Platform.WEB]
    stage.ports = replace(stage.ports, providers=dict.fromkeys(both, phones), platforms=both)
    return build_slice_worker(stage.system())


def breakers(work: SliceWorker) -> CircuitBreakers:
    push: Any = work.handlers[Step.WEB]
    circuit_breakers: CircuitBreakers = push.breakers
    return circuit_breakers


def alert_count_of(stage: Stage, device: Device) -> int:
    return sum(target.id == device.id for _, target in stage.state.phones.arrived)


def run_rounds(stage: Stage, work: SliceWorker, number: int, *, seconds: float = 1) -> None:
    for _ in range(number):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=seconds)


def users_in_send_log(stage: Stage) -> int:
    """Return how many users with browsers are in a send batch of any burst that alerts them."""
    logs = (stage.state.send_log.read(burst, Platform.WEB, [0, 1]).values() for burst in stage.bursts())
    return sum(count(batch.alerted) for log in logs for batches in log for batch in batches)


def counted(stage: Stage, work: SliceWorker, outcome: str) -> float:
    labels = {"platform": "web", "outcome": outcome}
    return work.metrics.registry.get_sample_value("notifier_push_receipts_total", labels) or 0


def test_open_circuit_delays_only_the_devices_of_its_push_service() -> None:
    stage = Stage()
    work = worker_with_browsers(stage)
    blocked_devices = [browser(stage, name, DOWN, *[WRONG] * 999) for name in ("kim", "lee", "roy")]
    working_device = browser(stage, "lee", UP)
    stage.mention("nova")
    run_rounds(stage, work, 5)
    assert [alert_count_of(stage, device) for device in [working_device, *blocked_devices]] == [1, 0, 0, 0]
    run_rounds(stage, work, 2 * RETRY_WINDOW // timedelta(seconds=31), seconds=31)
    for device in blocked_devices:
        stage.state.phones.answers[device.id].clear()
    run_rounds(stage, work, 10, seconds=31)
    assert [alert_count_of(stage, device) for device in [working_device, *blocked_devices]] == [1, 1, 1, 1]
    assert not stage.state.ledger.unfinished_bursts()
    assert counted(stage, work, "given_up") == 0
    assert counted(stage, work, "held") > 0


def test_user_behind_open_circuit_gets_one_summary_when_it_closes() -> None:
    stage, line = Stage(), f"web {DOWN}"
    work = worker_with_browsers(stage)
    kims = browser(stage, "kim", DOWN)
    for tweet in ("t1", "t2"):
        stage.mention("nova", of=tweet)
        for _ in range(100):
            # As if another device had just been refused.
            breakers(work).breakers_by_line[line] = Open(since=stage.state.clock.now(), reason=WRONG.reason)
            run_rounds(stage, work, 1, seconds=10)
    assert (len(stage.bursts()), users_in_send_log(stage), alert_count_of(stage, kims)) == (2, 0, 0)
    run_rounds(stage, work, 40, seconds=31)
    [alert] = [alert for alert, device in stage.state.phones.arrived if device.id == kims.id]
    assert alert.is_summary
    assert not stage.state.ledger.unfinished_bursts()


def test_alert_is_given_up_after_all_tries() -> None:
    stage = Stage()
    work = worker_with_browsers(stage)
    busy = RetryAt(at=stage.state.clock.now(), reason="503")
    kims = browser(stage, "kim", DOWN, *[busy] * 9)
    stage.mention("nova")
    run_rounds(stage, work, 120)
    assert (alert_count_of(stage, kims), counted(stage, work, "retry"), counted(stage, work, "given_up")) == (
        0,
        MAX_ALERT_ATTEMPTS - 1,
        1,
    )


def test_retry_expiring_in_quiet_hours_is_given_up() -> None:
    stage = Stage()
    stage.state.phones.answers[phone(stage, "kim").id] = [RetryAt(at=stage.state.clock.now() + SOON, reason="busy")]
    work = build_slice_worker(stage.system())
    stage.mention("nova")
    run_rounds(stage, work, 5)
    stage.state.people.patch_account(KIM, QUIET)
    run_rounds(stage, work, 30)
    assert (alert_count(stage, "kim"), alert_outcomes(stage, "kim")) == (0, [AlertOutcome.RETRY])
    stage.state.clock.advance(NIGHT)
    run_rounds(stage, work, 5)
    assert (alert_count(stage, "kim"), alert_outcomes(stage, "kim")) == (0, [AlertOutcome.RETRY, AlertOutcome.GIVEN_UP])
    assert not stage.state.ledger.unfinished_bursts()
    labels = {"platform": "fcm", "outcome": "given_up"}
    assert work.metrics.registry.get_sample_value("notifier_push_receipts_total", labels) == 1


def test_late_retry_is_sent_silently() -> None:
    stage = Stage()
    for name, minutes in (("kim", 10), ("roy", 20)):  # both are in P0
        wait = RetryAt(at=stage.state.clock.now() + timedelta(minutes=minutes), reason="429")
        stage.state.phones.answers[phone(stage, name).id] = [wait]
    work = build_slice_worker(stage.system())
    stage.mention("nova")
    run_rounds(stage, work, 5)
    run_rounds(stage, work, 30, seconds=61)
    urgent = {device.member: alert.is_urgent for alert, device in stage.state.phones.arrived}
    assert [urgent[phone(stage, name).member] for name in ("kim", "roy")] == [True, False]
    assert (alerts_of(stage, "kim"), alerts_of(stage, "roy")) == ([0], [0])


def test_rate_limited_device_does_not_slow_the_provider() -> None:
    def share(receipt: RetryAt) -> float:
        stage = Stage()
        stage.state.phones.answers[phone(stage, "kim").id] = [receipt]
        stage.mention("nova")
        stage.deliver_others()
        return stage.state.provider_rates.rates[Platform.FCM].share

    at = Stage().state.clock.now() + timedelta(minutes=5)
    assert share(RetryAt(at=at, reason="TooManyRequests", is_device_only=True)) == 1.0
    assert share(RetryAt(at=at, reason="QUOTA_EXCEEDED")) < 1.0


def test_alert_held_by_a_breaker_is_counted_as_held() -> None:
    stage = Stage()
    work = worker_with_browsers(stage)
    for name in ("kim", "lee", "roy"):
        browser(stage, name, DOWN, WRONG)
    stage.mention("nova")
    run_rounds(stage, work, 5)
    # The first device of the batch was tried, which opens the circuit of the line; the next one was not.
    assert (counted(stage, work, "retry"), counted(stage, work, "held")) == (1, 1)
    assert stage.state.provider_rates.rates[Platform.WEB].share == 1.0


@pytest.mark.parametrize("method", ["write_ahead", "close"])
@pytest.mark.parametrize("after", [False, True])
def test_crash_sends_no_duplicate_to_device_behind_open_circuit(method: str, after: bool) -> None:
    stage = Stage()
    worker_with_browsers(stage)
    blocked_device, working_device = browser(stage, "kim", DOWN), browser(stage, "roy", UP)
    killing_log: Any = KillsWorker(stage.state.send_log, method, after=after)
    work = build_slice_worker(stage.system(send_log=killing_log))
    stage.mention("nova")
    stage.dispatch()
    stage.work(Pool.P0, Pool.P1, Pool.P2)
    stage.pass_time(seconds=1)
    stage.dispatch()
    breakers(work).breakers_by_line[f"web {DOWN}"] = Open(since=stage.state.clock.now(), reason=WRONG.reason)
    with pytest.raises(Killed):
        stage.work(Pool.WEB, by=work)
    assert users_in_send_log(stage) == (0 if (method, after) == ("write_ahead", False) else 1)
    stage.pass_time(seconds=60)
    stage.deliver(rounds=60)
    assert alert_count_of(stage, blocked_device) == 1
    assert alert_count_of(stage, working_device) == (2 if (method, after) == ("close", False) else 1)


class SlowCaps:
    """Each check of a frequency cap takes the whole time that a worker may hold its slice."""

    def __init__(self, stage: Stage, caps: Any) -> None:
        self._stage, self._caps = stage, caps

    def spend(self, *args: Any) -> Any:
        self._stage.pass_time(seconds=TIME_SHARE.total_seconds())
        return self._caps.spend(*args)


def test_device_behind_open_circuit_does_not_take_a_turn_from_others() -> None:
    stage, line = Stage(), f"web {DOWN}"
    work = worker_with_browsers(stage)
    push: Any = work.handlers[Step.WEB]
    slow = replace(
        push,
        devices_per_group=1,
        selection=replace(push.selection, devices_per_batch=1),
        caps=SlowCaps(stage, push.caps),
    )
    work = replace(work, handlers={**work.handlers, Step.WEB: slow})
    first, second = sorted(("kim", "roy"), key=lambda name: stage.population.people[name].member)
    blocked_device, working_device = browser(stage, first, DOWN), browser(stage, second, UP)
    breakers(work).settings = BreakerSettings(open_for=timedelta(hours=9))
    breakers(work).breakers_by_line[line] = Open(since=stage.state.clock.now(), reason=WRONG.reason)
    stage.mention("nova")
    run_rounds(stage, work, 20)
    assert (alert_count_of(stage, blocked_device), alert_count_of(stage, working_device)) == (0, 1)
