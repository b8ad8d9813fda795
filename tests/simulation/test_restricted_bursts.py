"""More restricted bursts than the budget has fan-outs: pull-only bursts stay so after crashes."""

from dataclasses import replace

import pytest

from tests.support.simulator.checks import COLLAPSE, violations_of
from tests.support.simulator.population import BUDGETED
from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import crash, many_restricted_bursts, points
from tests.support.simulator.simulation import Simulation


def run_scenario() -> Simulation:
    simulation = Simulation(many_restricted_bursts())
    simulation.run()
    return simulation


def test_scenario_exhausts_budget_and_oracle_agrees() -> None:
    simulation = run_scenario()
    assert violations_of(simulation) == []
    pull_only = [key for key, burst in simulation.state.bursts.by_key.items() if burst.pull_only]
    assert len(pull_only) >= 3
    assert {key.subject.owner for key in pull_only} == set(BUDGETED)


@pytest.mark.parametrize("pull_only", [True, False])
def test_oracle_reports_fan_out_that_contradicts_budget(pull_only: bool) -> None:
    oracle = run_scenario().state_reader.oracle()
    wrong = replace(oracle, bursts={key: replace(burst, pull_only=pull_only) for key, burst in oracle.bursts.items()})
    assert list(oracle.pull_only_violations(BUDGETED)) == []
    if pull_only:
        assert "('mention', 'nova', 1) is not fanned out, though the budget isn't spent" in wrong.pull_only_violations(
            BUDGETED
        )
        assert any("although nothing prevents it" in text for text in wrong.pull_only_violations(BUDGETED))
    else:
        assert any("8 fan-outs" in text for text in wrong.spacing_violations(COLLAPSE, BUDGETED))


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_process_may_crash_while_restricted_bursts_are_published() -> None:
    trials = list(points(many_restricted_bursts(), crash, every=17))
    assert len(trials) > 10, "the scenario has too few crash points"
    assert [f"{thread}, point {number}: {trial}" for thread, number, trial in trials if trial.wrong] == []
