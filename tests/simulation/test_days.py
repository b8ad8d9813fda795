"""Some days of people who want digests: lists and badges are the oracle's at every look, and in the end."""

from tests.support.simulator.checks import verdict
from tests.support.simulator.scenarios.quiet_hours import some_days
from tests.support.simulator.simulation import World


def test_digests_are_what_the_oracle_says_whatever_is_said_and_marked_meanwhile() -> None:
    world = World(some_days())
    world.run()
    assert verdict(world) == [], "\n".join(f"{step} {text}" for step, _, text in world.scheduler.story)
    digests = [key for shown in world.visits.shown.values() for key in shown if key[0] == "digest"]
    assert len(digests) >= 4
