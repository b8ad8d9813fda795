"""More restricted bursts than the budget has fan-outs: pull-only bursts stay so after crashes."""

from dataclasses import replace

import pytest

from tests.support.simulator.cast import BUDGETED
from tests.support.simulator.checks import COLLAPSE, verdict
from tests.support.simulator.scenarios.catalog import dies, many_secrets, points
from tests.support.simulator.simulation import World


def played() -> World:
    world = World(many_secrets())
    world.run()
    return world


def test_scenario_exhausts_budget_and_oracle_agrees() -> None:
    world = played()
    assert verdict(world) == []
    pull_only = [key for key, burst in world.ground.bursts.by_key.items() if burst.pull_only]
    assert len(pull_only) >= 3
    assert {key.subject.owner for key in pull_only} == set(BUDGETED)


@pytest.mark.parametrize("pull_only", [True, False])
def test_oracle_reports_fan_out_that_contradicts_budget(pull_only: bool) -> None:
    oracle = played().sight.oracle()
    wrong = replace(oracle, bursts={key: replace(burst, spared=pull_only) for key, burst in oracle.bursts.items()})
    assert list(oracle.sparing(BUDGETED)) == []
    if pull_only:
        assert "('mention', 'nova', 1) is not fanned out, though the budget isn't spent" in wrong.sparing(BUDGETED)
        assert any("has every right to be" in text for text in wrong.sparing(BUDGETED))
    else:
        assert any("8 fan-outs" in text for text in wrong.spacing(COLLAPSE, BUDGETED))


@pytest.mark.timeout(300)
def test_process_may_crash_while_restricted_bursts_are_published() -> None:
    trials = list(points(many_secrets(), dies, every=20, twins=False))
    assert len(trials) > 20, "the scenario has too few crash points"
    assert [f"{thread}, point {number}: {trial}" for thread, number, trial in trials if trial.wrong] == []
