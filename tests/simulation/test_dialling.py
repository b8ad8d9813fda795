"""Devices go round among people between any two steps of a storm; who hears of it, or rings them, dies and sleeps."""

from collections import Counter
from dataclasses import replace

import pytest

from notifier.domain.audience.bitmap import members
from notifier.domain.ids import Member, Platform, Subject
from notifier.domain.push.alert import WhileAway
from notifier.domain.push.send_log import Why
from tests.support.simulator.checks import played
from tests.support.simulator.scenarios.catalog import dies, fails, points, sleeps
from tests.support.simulator.scenarios.devices import dialling, redialling
from tests.support.simulator.scenarios.quiet_hours import mornings, nights
from tests.support.simulator.script import How

pytestmark = pytest.mark.timeout(300)


def test_seals_have_who_had_a_device_while_devices_go_round() -> None:
    world = played(dialling())
    said = world.scene.rumours.phoned()
    assert len({one.person for one in said if one.has}) > 4
    assert len([one for one in said if not one.has]) > 10
    pushed = [
        {person.name for person in people.values() if person.push and person.name in ("kim", "lee", "max", "roy")}
        for people in world.scene.history
    ]
    assert len({frozenset(names) for names in pushed}) > 5


STRIKES = {"dies": dies, "sleeps": sleeps, **{str(how): fails(how) for how in How}}


@pytest.mark.parametrize("thread", ["/switchboard", "api/phones"])
@pytest.mark.parametrize("strike", STRIKES)
def test_who_hears_of_devices_may_be_struck_at_every_call(thread: str, strike: str) -> None:
    """A share of the calls, and by each kind of strike another one."""
    start = 23 * [*STRIKES].index(strike)
    struck = list(points(dialling(), STRIKES[strike], every=131, start=start, within=thread))
    assert len(struck) > 1, "the course has hardly a point to strike at"
    assert [f"{name}, point {number}: {done}" for name, number, done in struck if done.wrong] == []


@pytest.mark.parametrize("seed", range(2))
def test_in_whatever_order_it_happens(seed: int) -> None:
    played(replace(dialling(), seed=seed))


def test_who_sleeps_behind_an_intent_does_not_ring_once_another_has() -> None:
    struck = list(points(replace(redialling(), workers=2), sleeps, every=2, start=1, within="push-1"))
    assert any("behind sent.intend" in name for name, _, _ in struck)
    assert [f"{name}, point {number}: {done}" for name, number, done in struck if done.wrong] == []


def test_whoever_slept_hears_of_a_night_once() -> None:
    world = played(nights())
    stand_for = {
        device.member: alert.news.count
        for alert, device in world.ground.phones.arrived
        if isinstance(alert.news, WhileAway)
    }
    assert stand_for[Member(world.scene.base["kim"].member)] > 1
    windows = [window for some in world.ground.sent.windows.values() for window in some.values()]
    assert any(Why.COLLAPSED in window.silent for window in windows)


def test_phones_of_every_provider_ring_in_the_morning_and_nobody_is_told_of_anything_twice() -> None:
    world = played(mornings())
    phones = {device.platform for alert, device in world.ground.phones.arrived if isinstance(alert.news, WhileAway)}
    assert phones == {*Platform}
    told = Counter[tuple[Subject, int, Platform, int]]()
    for at, some in world.ground.sent.windows.items():
        for member, window in ((Member(m), one) for one in some.values() for m in members(one.told, at.shard)):
            of = (at.burst.seq, *window.tells(member))
            told.update((at.burst.subject, seq, at.platform, member) for seq in of)
    assert told.total() > 10
    assert [one for one, n in told.items() if n > 1] == []


COURSES = {"nights": (nights, 59), "mornings": (mornings, 181)}
"""With how many points from one that is struck to the next."""


@pytest.mark.parametrize("strike", ["dies", "sleeps", "after"])
@pytest.mark.parametrize("course", COURSES)
def test_a_night_s_alerts_survive_whoever_rings_them(course: str, strike: str) -> None:
    script, every = COURSES[course]
    start = 7 * [*STRIKES].index(strike)
    struck = list(points(script(), STRIKES[strike], every=every, start=start, within="push-1"))
    assert len(struck) > 5, "the course has hardly a point to strike at"
    assert [f"{name}, point {number}: {done}" for name, number, done in struck if done.wrong] == []
