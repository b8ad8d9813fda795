"""Lists and badges of digest readers match the oracle over some days."""

from tests.support.simulator.checks import violations_of
from tests.support.simulator.scenarios.quiet_hours import several_days
from tests.support.simulator.simulation import World


def test_digests_match_oracle_while_preferences_and_marks_change() -> None:
    world = World(several_days())
    world.run()
    assert violations_of(world) == [], "\n".join(f"{step} {text}" for step, _, text in world.scheduler.story)
    digests = [key for shown in world.visits.shown.values() for key in shown if key[0] == "digest"]
    assert len(digests) >= 4
