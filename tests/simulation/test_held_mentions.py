"""A held mention is published once, whatever fails while it is held or released."""

from collections.abc import Callable

import pytest

from tests.support.simulator.checks import violations_of
from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import crash, failing_call, points, stall
from tests.support.simulator.scenarios.moderation import held_mentions
from tests.support.simulator.script import FailureMode, Fault
from tests.support.simulator.simulation import Simulation

pytestmark = pytest.mark.timeout(300)


def test_storm_is_held_and_released_while_it_lasts() -> None:
    simulation = Simulation(held_mentions())
    simulation.run()
    assert violations_of(simulation) == []
    held = {event.id for _, _, event in simulation.state.held_mentions.audit}
    passed = {id for id, tweet in simulation.tweets.items() if tweet.author == "bob"} - held
    assert min(len(held), len(passed)) >= 2


@pytest.mark.prove
@pytest.mark.parametrize("thread", ["/router", "operator/moderation"])
@pytest.mark.parametrize("fault", [crash, stall, failing_call(FailureMode.AFTER)], ids=["crash", "stall", "after"])
def test_holding_and_releasing_survive_faults(thread: str, fault: Callable[[str], Fault]) -> None:
    trials = list(points(held_mentions(), fault, every=43 if thread == "/router" else 11, within=thread))
    assert len(trials) > 2, "the scenario has too few crash points"
    assert [f"{name}, point {number}: {trial}" for name, number, trial in trials if trial.wrong] == []
