"""Tweets and authors are taken back between any two steps of a storm, whoever dies, sleeps or fails on the way."""

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


def test_the_course_leaves_bursts_whole_smaller_narrowed_and_empty() -> None:
    world = played(replace(taking_back(), seed=3))  # in most orders somebody joins the one that is to be empty
    oracle, bursts = world.sight.oracle(), world.ground.bursts.by_key
    assert any(0 < burst.count < len(oracle.bursts[key_of(key)].tweets) for key, burst in bursts.items())
    assert any(burst.narrowed for burst in bursts.values())
    assert any(burst.retracted for burst in bursts.values())
    assert any(burst.restricted_to and not burst.silent for burst in bursts.values())
    assert world.withdrawals.settled, "the API has settled nothing by itself"


@pytest.mark.parametrize("thread", ["/retractor", "api/retractions", "/celebrity"])
@pytest.mark.parametrize("strike", [dies, sleeps, *map(fails, How)], ids=["dies", "sleeps", *map(str, How)])
def test_whoever_takes_back_or_writes_meanwhile_may_be_struck_at_every_call(
    thread: str, strike: Callable[[str], Fault]
) -> None:
    struck = list(points(taking_back(), strike, every=83, within=thread))
    assert len(struck) > 1, "the course has hardly a point to strike at"
    assert [f"{name}, point {number}: {done}" for name, number, done in struck if done.wrong] == []


def one(*words: TakenBack) -> Script:
    """A mention long before all that is said of it."""
    tweet = Happening(step=5, what=Tweeted(id="e1", author="eve", mentioned=("nova",)))
    said = [Happening(step=900 + 400 * n, what=word) for n, word in enumerate(words)]
    return Script(seed=1, steps=1_000 + 400 * len(words), happenings=[tweet, *said])


def sees(world: World, person: str) -> bool:
    oracle = world.sight.oracle()
    burst = oracle.bursts["mention", "nova", 1]
    return bool(oracle.left(burst)) and (bool(oracle.shared(burst)) or "eve" in oracle.people[person].follows)


@pytest.mark.parametrize(
    ("words", "kim", "pat"),
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
def test_who_sees_it_in_the_end(words: list[TakenBack], kim: bool, pat: bool) -> None:
    """Kim follows eve, and pat doesn't; both follow nova, and the verdict holds their tabs to the same oracle."""
    world = played(one(*words))
    assert (sees(world, "kim"), sees(world, "pat")) == (kim, pat)


def test_the_judge_notices_what_was_left_to_the_wrong_people() -> None:
    world = played(one(TakenBack(what="protect", author="eve")))
    oracle = world.sight.oracle()
    key = "mention", "nova", 1
    for left_to, text in (("", "is lost to the followers of"), ("ada", "is left to the followers of ada")):
        bursts = {**oracle.bursts, key: replace(oracle.bursts[key], left_to=left_to)}
        assert any(text in found for found in replace(oracle, bursts=bursts).leaving())


def test_where_a_day_s_first_is_taken_back_the_next_one_is_it_though_another_is_open() -> None:
    tweets = [Tweeted(id=f"e{n}", author="ada", mentioned=("orion",)) for n in (1, 2, 3, 4)]
    said = [Happening(step=step, what=one) for step, one in zip((5, 300, 900, 1_200), tweets, strict=True)]
    back = Happening(step=600, what=TakenBack(what="delete", author="ada", tweet="e1"))
    world = played(Script(seed=1, steps=1_500, happenings=[*said, back], collapse=timedelta(0)))
    bursts = sorted(world.ground.bursts.by_key.items())
    found = [burst.first_of_day for key, burst in bursts if str(key.subject) == "mention:orion"]
    assert found == [True, False, True, False]
