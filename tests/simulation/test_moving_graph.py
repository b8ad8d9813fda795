"""The graph moves between any two steps of a storm, by the log; indexers and roll-ups sleep, die, fail and are lost."""

from dataclasses import replace

import pytest

from notifier.domain.ids import Lane
from tests.support.oracle import FOR_EVER
from tests.support.simulator.checks import played
from tests.support.simulator.scenarios.catalog import (
    a_crossing,
    a_graph,
    a_wipe,
    dies,
    fails,
    first_followers,
    points,
    sleeps,
    zombies,
)
from tests.support.simulator.scenarios.retractions import a_quarrel
from tests.support.simulator.script import Changed, Happening, How, Lost, Opened, Script, Tweeted

pytestmark = pytest.mark.timeout(300)


def test_much_is_said_while_it_is_sealed() -> None:
    world = played(a_graph())
    unsure = [some for some in world.watching.sealed.values() if any(len(one) > 1 for one in some.values())]
    assert len(unsure) > 10
    assert sum(map(len, world.scene.rumours.heard.values())) > 110


STRIKES = {"dies": dies, "sleeps": sleeps, **{str(how): fails(how) for how in How}}


@pytest.mark.parametrize("thread", ["/indexer", "api/graph"])
@pytest.mark.parametrize("strike", STRIKES)
@pytest.mark.parametrize("every", [401, pytest.param(97, marks=pytest.mark.prove)])
def test_who_hears_of_the_graph_may_be_struck_at_every_call(thread: str, strike: str, every: int) -> None:
    """A share of the calls, and by each kind of strike another one."""
    start = 39 * [*STRIKES].index(strike) % every
    struck = list(points(a_graph(), STRIKES[strike], every=every, start=start, within=thread))
    assert len(struck) > 1, "the course has hardly a point to strike at"
    assert [f"{name}, point {number}: {done}" for name, number, done in struck if done.wrong] == []


def test_people_block_each_other_while_it_is_delivered() -> None:
    world = played(a_quarrel())
    apart = {pair for people in world.scene.history for person in people.values() for pair in person.apart.items()}
    assert {theirs for (_, theirs), _ in apart} == {True, False}
    assert len([until for _, until in apart if until != FOR_EVER]) > 10
    assert len(set().union(*world.visits.shown.values())) > 3


def test_who_hears_of_blocks_may_die_at_any_call() -> None:
    struck = list(points(a_quarrel(), dies, every=89, start=10, within="/indexer"))
    assert len(struck) > 2, "the course has hardly a point to strike at"
    assert [f"{name}, point {number}: {done}" for name, number, done in struck if done.wrong] == []


@pytest.mark.parametrize("seed", [14, 18, 23])
def test_nothing_comes_through_that_a_zombie_indexer_writes(seed: int) -> None:
    world = played(replace(zombies(), seed=seed))
    assert world.ground.sets.refused, "no zombie has written anything"


@pytest.mark.parametrize("seed", range(3))
def test_planner_covers_once(seed: int) -> None:
    """No plan lacks a shard in which somebody stands, whenever it is made; and each has its seals, and rows once."""
    world = played(replace(first_followers(), seed=seed))
    assert len(world.ground.ledger.planned()) > 30


@pytest.mark.parametrize("seed", range(3))
def test_an_emptied_redis_in_mid_storm_takes_nobody_s_tier_away(seed: int) -> None:
    world = played(replace(a_wipe(), seed=seed))
    assert world.ground.wipes == 2


@pytest.mark.parametrize("lost", [("pump-1/rollup",), ("pump-1/rollup", "pump-2/rollup")], ids=["one", "both"])
@pytest.mark.parametrize("at", [1, 150, 400])
def test_a_lost_roll_up_leaves_the_last_tiers(lost: tuple[str, ...], at: int) -> None:
    """Who took the job over, if anybody is left, goes on; else what was published last stands."""
    script = a_wipe().with_more(*(Happening(step=at, what=Lost(thread=thread)) for thread in lost))
    world = played(script)
    assert {*lost} == world.scheduler.lost


def late_follow() -> Script:
    """Kim leaves, and a follow that was said before comes behind it."""
    said = [(10, "unfollow", 9), (400, "follow", 8)]
    words = [
        Happening(step=step, what=Changed(person="kim", what=what, whom="nova", sequence=sequence))
        for step, what, sequence in said
    ]
    tweet = Happening(step=800, what=Tweeted(id="e1", author="ada", mentioned=("nova",)))
    return Script(
        seed=1, steps=1_200, happenings=[*words, tweet, Happening(step=1_100, what=Opened(person="kim"))], graph=True
    )


def test_unfollow_not_undone() -> None:
    world = played(late_follow())
    assert "nova" not in world.scene.people["kim"].follows
    assert world.visits.shown["kim"] == set()


@pytest.mark.parametrize("seed", range(5))
def test_crossing_no_gap(seed: int) -> None:
    """Bursts of both lanes, spaced and bounded by the one budget, and everybody's list is whole."""
    world = played(replace(a_crossing(), seed=seed))
    lanes = {burst.lane for key, burst in world.ground.bursts.by_key.items() if key.subject.owner == "nova"}
    assert lanes == {Lane.CELEBRITY, Lane.STANDARD}


@pytest.mark.parametrize("every", [271, pytest.param(53, marks=pytest.mark.prove)])
def test_a_process_may_die_while_an_account_crosses(every: int) -> None:
    struck = list(points(a_crossing(), dies, every=every, twins=False))
    assert len(struck) > 10, "the course has hardly a point to strike at"
    assert [f"{thread}, point {number}: {done}" for thread, number, done in struck if done.wrong] == []
