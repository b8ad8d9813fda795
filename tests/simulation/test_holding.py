"""What is held is told once, whoever dies, fails or sleeps while it is held and while it is let go."""

from collections.abc import Callable

import pytest

from tests.support.simulator.checks import verdict
from tests.support.simulator.scenarios.catalog import dies, fails, points, sleeps
from tests.support.simulator.scenarios.moderation import a_hold
from tests.support.simulator.script import Fault, How
from tests.support.simulator.simulation import World

pytestmark = pytest.mark.timeout(300)


def test_a_storm_is_held_and_let_go_while_it_lasts() -> None:
    world = World(a_hold())
    world.run()
    assert verdict(world) == []
    held = {event.id for _, _, event in world.ground.holds.audit}
    passed = {id for id, tweet in world.tweets.items() if tweet.author == "bob"} - held
    assert min(len(held), len(passed)) >= 2


@pytest.mark.parametrize("thread", ["/router", "desk/operator"])
@pytest.mark.parametrize("strike", [dies, sleeps, fails(How.AFTER)], ids=["dies", "sleeps", "fails"])
def test_who_holds_and_who_lets_go_may_be_struck_at_every_call(thread: str, strike: Callable[[str], Fault]) -> None:
    struck = list(points(a_hold(), strike, every=43 if thread == "/router" else 11, within=thread))
    assert len(struck) > 2, "the course has hardly a point to strike at"
    assert [f"{name}, point {number}: {done}" for name, number, done in struck if done.wrong] == []
