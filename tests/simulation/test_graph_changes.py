"""The graph changes at any step of a storm while indexers and roll-ups fail."""

from dataclasses import replace

import pytest

from notifier.domain.ids import Lane
from tests.support.oracle import FOR_EVER
from tests.support.simulator.checks import run_and_check
from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import (
    crash,
    failing_call,
    first_followers,
    graph_changes,
    lane_changes,
    points,
    redis_wipe,
    stall,
    stalled_indexers,
)
from tests.support.simulator.scenarios.retractions_and_user_blocks import user_blocks
from tests.support.simulator.script import Changed, FailureMode, Lost, Opened, Script, ScriptEntry, Tweeted

pytestmark = pytest.mark.timeout(300)


def test_graph_changes_arrive_while_audiences_are_snapshotted() -> None:
    simulation = run_and_check(graph_changes())
    ambiguous = [
        tiers
        for tiers in simulation.snapshot_observer.possible_by_shard.values()
        if any(len(possible) > 1 for possible in tiers.values())
    ]
    assert len(ambiguous) > 10
    assert sum(map(len, simulation.population.in_flight_changes.logged.values())) > 110


FAULTS = {"crash": crash, "stall": stall, **{str(how): failing_call(how) for how in FailureMode}}


@pytest.mark.prove
@pytest.mark.parametrize("thread", ["/graph_indexer", "api/graph"])
@pytest.mark.parametrize("fault", FAULTS)
def test_graph_indexers_survive_faults(thread: str, fault: str) -> None:
    """Test every 47th call, a different share of them for each kind of fault."""
    start = 39 * [*FAULTS].index(fault) % 47
    trials = list(points(graph_changes(), FAULTS[fault], every=47, start=start, within=thread))
    assert trials, "the scenario has too few crash points"
    assert [f"{name}, point {number}: {trial}" for name, number, trial in trials if trial.wrong] == []


def test_user_blocks_change_during_delivery() -> None:
    simulation = run_and_check(user_blocks())
    block_times = {
        pair for people in simulation.population.history for person in people.values() for pair in person.apart.items()
    }
    assert {theirs for (_, theirs), _ in block_times} == {True, False}
    assert len([until for _, until in block_times if until != FOR_EVER]) > 10
    assert len(set().union(*simulation.visits.shown.values())) > 3


@pytest.mark.prove
def test_user_block_indexer_survives_crashes() -> None:
    trials = list(points(user_blocks(), crash, every=43, start=5, within="/graph_indexer"))
    assert trials, "the scenario has too few crash points"
    assert [f"{name}, point {number}: {trial}" for name, number, trial in trials if trial.wrong] == []


@pytest.mark.parametrize("seed", [14, 18, 23])
def test_writes_of_zombie_indexer_are_fenced(seed: int) -> None:
    simulation = run_and_check(replace(stalled_indexers(), seed=seed))
    assert simulation.state.sets.refused_count, "no zombie indexer has written anything"


@pytest.mark.parametrize("seed", range(3))
def test_plans_cover_every_shard_once(seed: int) -> None:
    """Every plan has each shard with followers, whenever it is made, and each of those has snapshots and rows once."""
    simulation = run_and_check(replace(first_followers(), seed=seed))
    assert len(simulation.state.ledger.planned()) > 30


@pytest.mark.parametrize("seed", range(3))
def test_flushing_redis_in_a_storm_changes_no_tier(seed: int) -> None:
    simulation = run_and_check(replace(redis_wipe(), seed=seed))
    assert simulation.state.wipes == 2


@pytest.mark.parametrize("lost", [("pump-1/rollup",), ("pump-1/rollup", "pump-2/rollup")], ids=["one", "both"])
@pytest.mark.parametrize("at", [1, 150, 400])
def test_lost_rollup_keeps_last_published_tiers(lost: tuple[str, ...], at: int) -> None:
    """A surviving roll-up takes the job over. Without one, the last published tiers stay in effect."""
    script = redis_wipe().with_more(*(ScriptEntry(step=at, what=Lost(thread=thread)) for thread in lost))
    simulation = run_and_check(script)
    assert {*lost} == simulation.scheduler.lost


def late_follow() -> Script:
    """Kim unfollows, and an older follow arrives afterwards."""
    changes = [(10, "unfollow", 9), (400, "follow", 8)]
    entries = [
        ScriptEntry(step=step, what=Changed(person="kim", what=kind, whom="nova", sequence=sequence))
        for step, kind, sequence in changes
    ]
    tweet = ScriptEntry(step=800, what=Tweeted(id="e1", author="ada", mentioned=("nova",)))
    return Script(
        seed=1,
        steps=1_200,
        entries=[*entries, tweet, ScriptEntry(step=1_100, what=Opened(person="kim"))],
        graph=True,
    )


def test_late_follow_does_not_undo_unfollow() -> None:
    simulation = run_and_check(late_follow())
    assert "nova" not in simulation.population.people["kim"].follows
    assert simulation.visits.shown["kim"] == set()


@pytest.mark.parametrize("seed", range(5))
def test_lane_crossing_leaves_no_gap(seed: int) -> None:
    """One budget spaces and bounds the bursts of both lanes, and every user's list is complete."""
    simulation = run_and_check(replace(lane_changes(), seed=seed))
    lanes = {burst.lane for key, burst in simulation.state.bursts.by_key.items() if key.subject.owner == "nova"}
    assert lanes == {Lane.CELEBRITY, Lane.STANDARD}


@pytest.mark.prove
def test_process_may_crash_while_account_changes_lane() -> None:
    trials = list(points(lane_changes(), crash, every=53))
    assert len(trials) > 10, "the scenario has too few crash points"
    assert [f"{thread}, point {number}: {trial}" for thread, number, trial in trials if trial.wrong] == []
