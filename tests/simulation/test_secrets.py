"""More secrets than a purse has fan-outs: what is pulled alone is so for ever, whoever dies on the way."""

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


def test_the_course_spends_the_purse_and_the_oracle_agrees() -> None:
    world = played()
    assert verdict(world) == []
    spared = [key for key, burst in world.ground.bursts.by_key.items() if burst.pull_only]
    assert len(spared) >= 3
    assert {key.subject.owner for key in spared} == set(BUDGETED)


@pytest.mark.parametrize("spared", [True, False])
def test_the_oracle_notices_who_is_fanned_out_or_spared_against_the_budget(spared: bool) -> None:
    oracle = played().sight.oracle()
    wrong = replace(oracle, bursts={key: replace(burst, spared=spared) for key, burst in oracle.bursts.items()})
    assert list(oracle.sparing(BUDGETED)) == []
    if spared:
        assert "('mention', 'nova', 1) is not fanned out, though the budget isn't spent" in wrong.sparing(BUDGETED)
        assert any("has every right to be" in text for text in wrong.sparing(BUDGETED))
    else:
        assert any("8 fan-outs" in text for text in wrong.spacing(COLLAPSE, BUDGETED))


@pytest.mark.timeout(300)
def test_a_process_may_die_while_secrets_are_told() -> None:
    struck = list(points(many_secrets(), dies, every=20, twins=False))
    assert len(struck) > 20, "the course has hardly a point to strike at"
    assert [f"{thread}, point {number}: {trial}" for thread, number, trial in struck if trial.wrong] == []
