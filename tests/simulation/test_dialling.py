"""Devices go round among people between any two steps of a storm; who hears of it dies, sleeps and fails."""

from dataclasses import replace

import pytest

from notifier.testing.simulator.courses import dies, fails, points, sleeps
from notifier.testing.simulator.dialling import dialling
from notifier.testing.simulator.judge import verdict
from notifier.testing.simulator.script import How, Script
from notifier.testing.simulator.world import World

pytestmark = pytest.mark.timeout(300)


def played(script: Script) -> World:
    world = World(script)
    world.run()
    assert verdict(world) == [], "\n".join(f"{step} {text}" for step, _, text in world.scheduler.story)
    return world


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
