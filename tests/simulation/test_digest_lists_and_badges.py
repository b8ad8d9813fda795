"""Lists and badges of digest readers match the oracle over some days."""

from tests.support.simulator.checks import violations_of
from tests.support.simulator.scenarios.quiet_hours_and_several_days import several_days
from tests.support.simulator.simulation import Simulation


def test_digests_match_oracle_while_preferences_and_marks_change() -> None:
    simulation = Simulation(several_days())
    simulation.run()
    assert violations_of(simulation) == [], "\n".join(f"{step} {text}" for step, _, text in simulation.scheduler.story)
    digests = [key for shown in simulation.visits.shown.values() for key in shown if key[0] == "digest"]
    assert len(digests) >= 4
