"""Tweets and authors are retracted at any step of a storm while threads fail."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.simulator.checks import run_and_check
from tests.support.simulator.oracle_input_reader import key_of
from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import crash, failing_call, points, stall
from tests.support.simulator.scenarios.retractions_and_user_blocks import many_retractions
from tests.support.simulator.script import FailureMode, Fault, Retracted, Script, ScriptEntry, Tweeted
from tests.support.simulator.simulation import Simulation

pytestmark = pytest.mark.timeout(300)


def test_scenario_leaves_every_kind_of_retracted_burst() -> None:
    # With most seeds, another mention joins the burst that is to be empty.
    simulation = run_and_check(replace(many_retractions(), seed=3))
    oracle, bursts = simulation.state_reader.oracle(), simulation.state.bursts.by_key
    assert any(0 < burst.count < len(oracle.bursts[key_of(key)].tweets) for key, burst in bursts.items())
    assert any(burst.became_restricted for burst in bursts.values())
    assert any(burst.is_retracted for burst in bursts.values())
    assert any(burst.restricted_to and not burst.silent for burst in bursts.values())
    assert simulation.retraction_tracker.applied_by_api, "the API itself has settled no retraction"


@pytest.mark.prove
@pytest.mark.parametrize("thread", ["/retractor", "api/retractions", "/celebrity"])
@pytest.mark.parametrize(
    "fault", [crash, stall, *map(failing_call, FailureMode)], ids=["crash", "stall", *map(str, FailureMode)]
)
def test_retractors_and_coordinator_survive_faults(thread: str, fault: Callable[[str], Fault]) -> None:
    trials = list(points(many_retractions(), fault, every=83, within=thread))
    assert trials, "the scenario has too few crash points"
    assert [f"{name}, point {number}: {trial}" for name, number, trial in trials if trial.wrong] == []


def mention_then(*retractions: Retracted) -> Script:
    """A mention long before all of its retractions."""
    tweet = ScriptEntry(step=5, what=Tweeted(id="e1", author="eve", mentioned=("nova",)))
    entries = [ScriptEntry(step=900 + 400 * n, what=retraction) for n, retraction in enumerate(retractions)]
    return Script(seed=1, steps=1_000 + 400 * len(retractions), entries=[tweet, *entries])


def sees(simulation: Simulation, person: str) -> bool:
    oracle = simulation.state_reader.oracle()
    burst = oracle.bursts["mention", "nova", 1]
    return bool(oracle.visible_tweets(burst)) and (
        bool(oracle.public_tweets(burst)) or "eve" in oracle.people[person].follows
    )


@pytest.mark.parametrize(
    ("retractions", "kim", "pat"),
    [
        ([], True, True),
        ([Retracted(what="delete", author="eve", tweet="e1")], False, False),
        ([Retracted(what="delete", author="ada", tweet="e1")], True, True),
        ([Retracted(what="edit", author="eve", tweet="e1", mentioned=("lyra",), sequence=1)], False, False),
        ([Retracted(what="edit", author="eve", tweet="e1", mentioned=("nova",), sequence=1)], True, True),
        ([Retracted(what="protect", author="eve")], True, False),
        ([Retracted(what="protect", author="eve"), Retracted(what="erase", author="eve")], False, False),
    ],
    ids=["nothing", "deleted", "deleted by another", "no longer names her", "edited", "protected", "erased"],
)
def test_retraction_hides_burst_from_the_right_viewers(retractions: list[Retracted], kim: bool, pat: bool) -> None:
    """Kim follows eve, and pat does not.

    Both follow nova, and `run_and_check` compares their inboxes with the same oracle.
    """
    simulation = run_and_check(mention_then(*retractions))
    assert (sees(simulation, "kim"), sees(simulation, "pat")) == (kim, pat)


def test_checks_report_burst_left_to_wrong_viewers() -> None:
    simulation = run_and_check(mention_then(Retracted(what="protect", author="eve")))
    oracle = simulation.state_reader.oracle()
    key = "mention", "nova", 1
    for left_to, text in (("", "is lost to the followers of"), ("ada", "is left to the followers of ada")):
        bursts = {**oracle.bursts, key: replace(oracle.bursts[key], left_to=left_to)}
        assert any(text in problem for problem in replace(oracle, bursts=bursts).restriction_violations())


def test_next_burst_is_first_of_day_though_another_is_open() -> None:
    tweets = [Tweeted(id=f"e{n}", author="ada", mentioned=("orion",)) for n in (1, 2, 3, 4)]
    entries = [ScriptEntry(step=step, what=tweet) for step, tweet in zip((5, 300, 900, 1_200), tweets, strict=True)]
    retraction = ScriptEntry(step=600, what=Retracted(what="delete", author="ada", tweet="e1"))
    simulation = run_and_check(Script(seed=1, steps=1_500, entries=[*entries, retraction], collapse=timedelta(0)))
    bursts = sorted(simulation.state.bursts.by_key.items())
    first_of_day = [burst.first_of_day for key, burst in bursts if str(key.subject) == "mention:orion"]
    assert first_of_day == [True, False, True, False]
