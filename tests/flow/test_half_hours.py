"""Whose half hour begins when, and what becomes of an alert behind it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from notifier.domain.audience.bitmap import count
from notifier.domain.delivery.slice import HAND_BACK_AFTER, Pool, Step
from notifier.domain.ids import Member, Platform
from notifier.domain.push.circuit_breaker import BreakerSettings, Open
from notifier.domain.push.device import Device, WebSubscription
from notifier.domain.push.receipt import ConfigError, Receipt, RetryAt
from notifier.domain.push.send_log import TRIES, WORTH, AlertOutcome
from notifier.flow.delivery.slice_worker import Work
from notifier.flow.push.circuit_breakers import CircuitBreakers
from notifier.wiring.delivery import build_slice_worker
from tests.flow.alert_counts import SOON, alert_count, alert_outcomes, phone
from tests.flow.test_catch_up import KIM, NIGHT, QUIET, alerts_of
from tests.flow.test_ringing_killed import Dying, Killed
from tests.support.in_memory_system import Stage

AWAY, WELL = "away.example", "well.example"
WRONG = ConfigError(reason="BadJwtToken")


def browser(stage: Stage, name: str, host: str, *says: Receipt) -> Device:
    address = WebSubscription(endpoint=f"https://{host}/{name}", key=b"k" * 65, secret=b"s" * 16)
    member, now = Member(stage.scene.people[name].member), stage.ground.clock.now()
    device = Device(member=member, address=address, registered_at=now - timedelta(hours=1))
    stage.ground.devices.write([device])
    stage.ground.phones.says[device.id] = [*says]
    return device


def with_browsers(stage: Stage) -> Work:
    phones, both = stage.ground.phones, [Platform.FCM, Platform.WEB]
    stage.ports = replace(stage.ports, providers=dict.fromkeys(both, phones), platforms=both)
    return build_slice_worker(stage.system())


def breakers(work: Work) -> CircuitBreakers:
    push: Any = work.doings[Step.WEB]
    found: CircuitBreakers = push.breakers
    return found


def times(stage: Stage, device: Device) -> int:
    return sum(one.id == device.id for _, one in stage.ground.phones.arrived)


def rounds(stage: Stage, work: Work, number: int, *, seconds: float = 1) -> None:
    for _ in range(number):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=seconds)


def sent_to(stage: Stage) -> int:
    """People with browsers who are in a window of any burst, and not one that keeps silent to them."""
    found = (stage.ground.sent.read(burst, Platform.WEB, [0, 1]).values() for burst in stage.bursts())
    return sum(count(window.told) for each in found for some in each for window in some)


def counted(stage: Stage, work: Work, fate: str) -> float:
    labels = {"platform": "web", "fate": fate}
    return work.metrics.registry.get_sample_value("notifier_push_receipts_total", labels) or 0


def test_browsers_of_a_push_service_that_is_left_alone_for_longer_ring_once_it_is_back_and_others_at_once() -> None:
    stage = Stage()
    work = with_browsers(stage)
    theirs = [browser(stage, name, AWAY, *[WRONG] * 999) for name in ("kim", "lee", "roy")]
    other = browser(stage, "lee", WELL)
    stage.mention("nova")
    rounds(stage, work, 5)
    assert [times(stage, one) for one in [other, *theirs]] == [1, 0, 0, 0]
    rounds(stage, work, 2 * WORTH // timedelta(seconds=31), seconds=31)
    for device in theirs:
        stage.ground.phones.says[device.id].clear()
    rounds(stage, work, 10, seconds=31)
    assert [times(stage, one) for one in [other, *theirs]] == [1, 1, 1, 1]
    assert not stage.ground.ledger.open()
    assert counted(stage, work, "given_up") == 0
    assert counted(stage, work, "held") > 0


def test_who_can_not_be_asked_is_in_no_window_and_is_told_of_all_that_came_meanwhile_at_once() -> None:
    stage, line = Stage(), f"web {AWAY}"
    work = with_browsers(stage)
    kims = browser(stage, "kim", AWAY)
    for of in ("t1", "t2"):
        stage.mention("nova", of=of)
        for _ in range(100):
            # As if whoever else is asked were refused, just before.
            breakers(work).lines[line] = Open(since=stage.ground.clock.now(), reason=WRONG.reason)
            rounds(stage, work, 1, seconds=10)
    assert (len(stage.bursts()), sent_to(stage), times(stage, kims)) == (2, 0, 0)
    rounds(stage, work, 40, seconds=31)
    [alert] = [alert for alert, device in stage.ground.phones.arrived if device.id == kims.id]
    assert alert.summary
    assert not stage.ground.ledger.open()


def test_three_tries_and_half_an_hour_still_end_what_a_push_service_was_asked_for() -> None:
    stage = Stage()
    work = with_browsers(stage)
    busy = RetryAt(at=stage.ground.clock.now(), reason="503")
    kims = browser(stage, "kim", AWAY, *[busy] * 9)
    stage.mention("nova")
    rounds(stage, work, 120)
    assert (times(stage, kims), counted(stage, work, "retry"), counted(stage, work, "given_up")) == (0, TRIES - 1, 1)


def test_a_retry_whose_half_hour_is_slept_through_is_in_the_app_alone_and_counted() -> None:
    stage = Stage()
    stage.ground.phones.says[phone(stage, "kim").id] = [RetryAt(at=stage.ground.clock.now() + SOON, reason="busy")]
    work = build_slice_worker(stage.system())
    stage.mention("nova")
    rounds(stage, work, 5)
    stage.ground.people.arrange(KIM, QUIET)
    rounds(stage, work, 30)
    assert (alert_count(stage, "kim"), alert_outcomes(stage, "kim")) == (0, [AlertOutcome.RETRY])
    stage.ground.clock.advance(NIGHT)
    rounds(stage, work, 5)
    assert (alert_count(stage, "kim"), alert_outcomes(stage, "kim")) == (0, [AlertOutcome.RETRY, AlertOutcome.GIVEN_UP])
    assert not stage.ground.ledger.open()
    labels = {"platform": "fcm", "fate": "given_up"}
    assert work.metrics.registry.get_sample_value("notifier_push_receipts_total", labels) == 1


def test_a_retry_that_is_no_news_any_more_wakes_nobody() -> None:
    stage = Stage()
    for name, minutes in (("kim", 10), ("roy", 20)):  # P0 both
        wait = RetryAt(at=stage.ground.clock.now() + timedelta(minutes=minutes), reason="429")
        stage.ground.phones.says[phone(stage, name).id] = [wait]
    work = build_slice_worker(stage.system())
    stage.mention("nova")
    rounds(stage, work, 5)
    rounds(stage, work, 30, seconds=61)
    urgent = {device.member: alert.urgent for alert, device in stage.ground.phones.arrived}
    assert [urgent[phone(stage, name).member] for name in ("kim", "roy")] == [True, False]
    assert (alerts_of(stage, "kim"), alerts_of(stage, "roy")) == ([0], [0])


def test_one_device_that_gets_too_many_neither_stops_nor_slows_the_others() -> None:
    def share(receipt: RetryAt) -> float:
        stage = Stage()
        stage.ground.phones.says[phone(stage, "kim").id] = [receipt]
        stage.mention("nova")
        stage.deliver_others()
        return stage.ground.paces.paces[Platform.FCM].share

    at = Stage().ground.clock.now() + timedelta(minutes=5)
    assert share(RetryAt(at=at, reason="TooManyRequests", alone=True)) == 1.0
    assert share(RetryAt(at=at, reason="QUOTA_EXCEEDED")) < 1.0


def test_what_a_breaker_held_is_no_refusal_and_is_counted_apart() -> None:
    stage = Stage()
    work = with_browsers(stage)
    for name in ("kim", "lee", "roy"):
        browser(stage, name, AWAY, WRONG)
    stage.mention("nova")
    rounds(stage, work, 5)
    # One of a tier in its window was asked, which is about all of the line; the next of that window wasn't.
    assert (counted(stage, work, "retry"), counted(stage, work, "held")) == (1, 1)
    assert stage.ground.paces.paces[Platform.WEB].share == 1.0


@pytest.mark.parametrize("method", ["intend", "close"])
@pytest.mark.parametrize("behind", [False, True])
def test_a_crash_leaves_nobody_in_doubt_who_could_not_be_asked(method: str, behind: bool) -> None:
    stage = Stage()
    with_browsers(stage)
    theirs, other = browser(stage, "kim", AWAY), browser(stage, "roy", WELL)
    dying: Any = Dying(stage.ground.sent, method, behind=behind)
    work = build_slice_worker(stage.system(sent=dying))
    stage.mention("nova")
    stage.dispatch()
    stage.work(Pool.P0, Pool.P1, Pool.P2)
    stage.pass_time(seconds=1)
    stage.dispatch()
    breakers(work).lines[f"web {AWAY}"] = Open(since=stage.ground.clock.now(), reason=WRONG.reason)
    with pytest.raises(Killed):
        stage.work(Pool.WEB, by=work)
    assert sent_to(stage) == (0 if (method, behind) == ("intend", False) else 1)
    stage.pass_time(seconds=60)
    stage.deliver(rounds=60)
    assert times(stage, theirs) == 1
    assert times(stage, other) == (2 if (method, behind) == ("close", False) else 1)


class Slow:
    """A turn goes by over whoever is looked at."""

    def __init__(self, stage: Stage, caps: Any) -> None:
        self._stage, self._caps = stage, caps

    def spend(self, *of: Any) -> Any:
        self._stage.pass_time(seconds=HAND_BACK_AFTER.total_seconds())
        return self._caps.spend(*of)


def test_who_can_not_be_asked_takes_nobody_else_s_turn_however_long_it_takes_to_find_out() -> None:
    stage, line = Stage(), f"web {AWAY}"
    work = with_browsers(stage)
    push: Any = work.doings[Step.WEB]
    slow = replace(
        push,
        batch_devices=1,
        selection=replace(push.selection, batch_devices=1),
        caps=Slow(stage, push.caps),
    )
    work = replace(work, doings={**work.doings, Step.WEB: slow})
    first, second = sorted(("kim", "roy"), key=lambda name: stage.scene.people[name].member)
    theirs, other = browser(stage, first, AWAY), browser(stage, second, WELL)
    breakers(work).settings = BreakerSettings(rest=timedelta(hours=9))
    breakers(work).lines[line] = Open(since=stage.ground.clock.now(), reason=WRONG.reason)
    stage.mention("nova")
    rounds(stage, work, 20)
    assert (times(stage, theirs), times(stage, other)) == (0, 1)
