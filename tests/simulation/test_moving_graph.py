"""The graph changes at any step of a storm while indexers and roll-ups fail."""

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


def test_graph_changes_arrive_while_audiences_are_snapshotted() -> None:
    world = played(a_graph())
    ambiguous = [
        tiers for tiers in world.watching.sealed.values() if any(len(possible) > 1 for possible in tiers.values())
    ]
    assert len(ambiguous) > 10
    assert sum(map(len, world.scene.rumours.heard.values())) > 110


FAULTS = {"dies": dies, "sleeps": sleeps, **{str(how): fails(how) for how in How}}


@pytest.mark.parametrize("thread", ["/indexer", "api/graph"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("every", [401, pytest.param(97, marks=pytest.mark.prove)])
def test_graph_indexers_survive_faults_at_every_call(thread: str, fault: str, every: int) -> None:
    """Test a share of the calls, a different one for each kind of fault."""
    start = 39 * [*FAULTS].index(fault) % every
    trials = list(points(a_graph(), FAULTS[fault], every=every, start=start, within=thread))
    assert len(trials) > 1, "the scenario has too few crash points"
    assert [f"{name}, point {number}: {trial}" for name, number, trial in trials if trial.wrong] == []


def test_user_blocks_change_during_delivery() -> None:
    world = played(a_quarrel())
    user_blocks = {
        pair for people in world.scene.history for person in people.values() for pair in person.apart.items()
    }
    assert {theirs for (_, theirs), _ in user_blocks} == {True, False}
    assert len([until for _, until in user_blocks if until != FOR_EVER]) > 10
    assert len(set().union(*world.visits.shown.values())) > 3


def test_user_block_indexer_may_crash_at_any_call() -> None:
    trials = list(points(a_quarrel(), dies, every=89, start=10, within="/indexer"))
    assert len(trials) > 2, "the scenario has too few crash points"
    assert [f"{name}, point {number}: {trial}" for name, number, trial in trials if trial.wrong] == []


@pytest.mark.parametrize("seed", [14, 18, 23])
def test_writes_of_zombie_indexer_are_fenced(seed: int) -> None:
    world = played(replace(zombies(), seed=seed))
    assert world.ground.sets.refused, "no zombie indexer has written anything"


@pytest.mark.parametrize("seed", range(3))
def test_plans_cover_every_shard_once(seed: int) -> None:
    """Every plan has each shard with followers, whenever it is made, and each of those has snapshots and rows once."""
    world = played(replace(first_followers(), seed=seed))
    assert len(world.ground.ledger.planned()) > 30


@pytest.mark.parametrize("seed", range(3))
def test_flushing_redis_in_a_storm_changes_no_tier(seed: int) -> None:
    world = played(replace(a_wipe(), seed=seed))
    assert world.ground.wipes == 2


@pytest.mark.parametrize("lost", [("pump-1/rollup",), ("pump-1/rollup", "pump-2/rollup")], ids=["one", "both"])
@pytest.mark.parametrize("at", [1, 150, 400])
def test_lost_rollup_keeps_last_published_tiers(lost: tuple[str, ...], at: int) -> None:
    """A surviving roll-up takes the job over. Without one, the last published tiers stay in effect."""
    script = a_wipe().with_more(*(Happening(step=at, what=Lost(thread=thread)) for thread in lost))
    world = played(script)
    assert {*lost} == world.scheduler.lost


def late_follow() -> Script:
    """Kim unfollows, and an older follow arrives afterwards."""
    changes = [(10, "unfollow", 9), (400, "follow", 8)]
    happenings = [
        Happening(step=step, what=Changed(person="kim", what=kind, whom="nova", sequence=sequence))
        for step, kind, sequence in changes
    ]
    tweet = Happening(step=800, what=Tweeted(id="e1", author="ada", mentioned=("nova",)))
    return Script(
        seed=1,
        steps=1_200,
        happenings=[*happenings, tweet, Happening(step=1_100, what=Opened(person="kim"))],
        graph=True,
    )


def test_late_follow_does_not_undo_unfollow() -> None:
    world = played(late_follow())
    assert "nova" not in world.scene.people["kim"].follows
    assert world.visits.shown["kim"] == set()


@pytest.mark.parametrize("seed", range(5))
def test_lane_crossing_leaves_no_gap(seed: int) -> None:
    """One budget spaces and bounds the bursts of both lanes, and every user's list is complete."""
    world = played(replace(a_crossing(), seed=seed))
    lanes = {burst.lane for key, burst in world.ground.bursts.by_key.items() if key.subject.owner == "nova"}
    assert lanes == {Lane.CELEBRITY, Lane.STANDARD}


@pytest.mark.parametrize("every", [271, pytest.param(53, marks=pytest.mark.prove)])
def test_process_may_crash_while_account_changes_lane(every: int) -> None:
    trials = list(points(a_crossing(), dies, every=every, twins=False))
    assert len(trials) > 10, "the scenario has too few crash points"
    assert [f"{thread}, point {number}: {trial}" for thread, number, trial in trials if trial.wrong] == []
