"""Tweets and authors are retracted at any step of a storm while threads fail."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.simulator.checks import played
from tests.support.simulator.scenarios.catalog import dies, fails, points, sleeps
from tests.support.simulator.scenarios.retractions import taking_back
from tests.support.simulator.script import Fault, Happening, How, Script, TakenBack, Tweeted
from tests.support.simulator.simulation import World
from tests.support.simulator.snapshot import key_of

pytestmark = pytest.mark.timeout(300)


def test_scenario_leaves_every_kind_of_retracted_burst() -> None:
    world = played(replace(taking_back(), seed=3))  # in most orders another mention joins the burst that is to be empty
    oracle, bursts = world.sight.oracle(), world.ground.bursts.by_key
    assert any(0 < burst.count < len(oracle.bursts[key_of(key)].tweets) for key, burst in bursts.items())
    assert any(burst.narrowed for burst in bursts.values())
    assert any(burst.retracted for burst in bursts.values())
    assert any(burst.restricted_to and not burst.silent for burst in bursts.values())
    assert world.withdrawals.settled, "the API itself has settled no retraction"


@pytest.mark.parametrize("thread", ["/retractor", "api/retractions", "/celebrity"])
@pytest.mark.parametrize("fault", [dies, sleeps, *map(fails, How)], ids=["dies", "sleeps", *map(str, How)])
def test_retractors_and_coordinator_survive_faults_at_every_call(thread: str, fault: Callable[[str], Fault]) -> None:
    trials = list(points(taking_back(), fault, every=83, within=thread))
    assert len(trials) > 1, "the scenario has too few crash points"
    assert [f"{name}, point {number}: {trial}" for name, number, trial in trials if trial.wrong] == []


def mention_then(*retractions: TakenBack) -> Script:
    """A mention long before all of its retractions."""
    tweet = Happening(step=5, what=Tweeted(id="e1", author="eve", mentioned=("nova",)))
    happenings = [Happening(step=900 + 400 * n, what=retraction) for n, retraction in enumerate(retractions)]
    return Script(seed=1, steps=1_000 + 400 * len(retractions), happenings=[tweet, *happenings])


def sees(world: World, person: str) -> bool:
    oracle = world.sight.oracle()
    burst = oracle.bursts["mention", "nova", 1]
    return bool(oracle.left(burst)) and (bool(oracle.shared(burst)) or "eve" in oracle.people[person].follows)


@pytest.mark.parametrize(
    ("retractions", "kim", "pat"),
    [
        ([], True, True),
        ([TakenBack(what="delete", author="eve", tweet="e1")], False, False),
        ([TakenBack(what="delete", author="ada", tweet="e1")], True, True),
        ([TakenBack(what="edit", author="eve", tweet="e1", mentioned=("lyra",), sequence=1)], False, False),
        ([TakenBack(what="edit", author="eve", tweet="e1", mentioned=("nova",), sequence=1)], True, True),
        ([TakenBack(what="protect", author="eve")], True, False),
        ([TakenBack(what="protect", author="eve"), TakenBack(what="erase", author="eve")], False, False),
    ],
    ids=["nothing", "deleted", "by another", "names her no more", "edited", "protected", "erased"],
)
def test_retraction_hides_burst_from_the_right_viewers(retractions: list[TakenBack], kim: bool, pat: bool) -> None:
    """Kim follows eve, and pat does not.

    Both follow nova, and the verdict checks their inboxes against the same oracle.
    """
    world = played(mention_then(*retractions))
    assert (sees(world, "kim"), sees(world, "pat")) == (kim, pat)


def test_checks_report_burst_left_to_wrong_viewers() -> None:
    world = played(mention_then(TakenBack(what="protect", author="eve")))
    oracle = world.sight.oracle()
    key = "mention", "nova", 1
    for left_to, text in (("", "is lost to the followers of"), ("ada", "is left to the followers of ada")):
        bursts = {**oracle.bursts, key: replace(oracle.bursts[key], left_to=left_to)}
        assert any(text in problem for problem in replace(oracle, bursts=bursts).leaving())


def test_next_burst_is_first_of_day_though_another_is_open() -> None:
    tweets = [Tweeted(id=f"e{n}", author="ada", mentioned=("orion",)) for n in (1, 2, 3, 4)]
    happenings = [Happening(step=step, what=tweet) for step, tweet in zip((5, 300, 900, 1_200), tweets, strict=True)]
    retraction = Happening(step=600, what=TakenBack(what="delete", author="ada", tweet="e1"))
    world = played(Script(seed=1, steps=1_500, happenings=[*happenings, retraction], collapse=timedelta(0)))
    bursts = sorted(world.ground.bursts.by_key.items())
    first_of_day = [burst.first_of_day for key, burst in bursts if str(key.subject) == "mention:orion"]
    assert first_of_day == [True, False, True, False]
