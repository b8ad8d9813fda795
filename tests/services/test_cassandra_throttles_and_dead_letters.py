"""Throttles, dead letters and lane tallies on Cassandra: audit order and lost answers."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.cassandra import (
    CassandraDeadLetters,
    CassandraDeadLetterTallies,
    CassandraThrottles,
    Cluster,
)
from notifier.adapters.cassandra.stores.leases_epochs_throttles_audit import audit_entries
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit, DeadLetterTally, LaneStop, LimitKind
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from notifier.domain.errors import StoreUnavailable
from notifier.flow.dead_letter_lane_stops import LaneGuard
from notifier.metrics import Metrics
from notifier.ports.event_log_and_dead_letters import DeadLetter
from tests.support.cassandra_keyspace import ON_ENGINES, clock, cluster, shared_cluster
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.lossy_cassandra import LOST, LossyCluster

__all__ = ["clock", "cluster", "shared_cluster"]

pytestmark = ON_ENGINES

TERM = timedelta(seconds=4)

PAUSE = Throttle(id="t1", tier=Tier.P2, rate=None, reason="disk", operator="ada", starts_at=START, ends_at=START + TERM)


def audited(cluster: Cluster) -> list[tuple[str, str, bool]]:
    """Return the operator and action of each audit entry, and whether its hash is right."""
    return [
        (entry["operator"], entry["action"], good)
        for entry, good in ((json.loads(body), good) for body, good in audit_entries(cluster))
    ]


def test_throttle_changes_are_audited_with_operator(cluster: Cluster, clock: ManualClock) -> None:
    throttles = CassandraThrottles(cluster, clock)
    throttles.put(PAUSE)
    throttles.lift("t1", "bob", START + TERM / 2)
    throttles.lift("t1", "eve", START + TERM / 2)
    assert audited(cluster) == [("ada", "throttle.put", True), ("bob", "throttle.lift", True)]


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE audit SET body = 0x00 WHERE list_name = 'audit' AND number = 1",
        "DELETE FROM audit WHERE list_name = 'audit' AND number = 1",
        "UPDATE audit SET hash = 0x00 WHERE list_name = 'audit' AND number = 2",
    ],
)
def test_tampered_audit_is_detected(cluster: Cluster, clock: ManualClock, tamper: str) -> None:
    for id in ("t1", "t2", "t3"):
        CassandraThrottles(cluster, clock).put(replace(PAUSE, id=id))
    assert all(good for _, good in audit_entries(cluster))
    # Conditional, because a plain write could lose by its timestamp to an earlier conditional write.
    assert cluster.execute(f"{tamper} IF EXISTS")[0].applied
    assert not all(good for _, good in audit_entries(cluster))


@pytest.mark.parametrize("done", [True, False])
def test_throttle_is_set_only_after_its_audit_row(cluster: Cluster, clock: ManualClock, done: bool) -> None:
    throttles = CassandraThrottles(LossyCluster(cluster, LOST[0], done=done, at="INTO audit"), clock)
    if done:
        throttles.put(PAUSE)
        assert (len(audited(cluster)), list(throttles.ending_after(START))) == (1, [PAUSE])
    else:
        with pytest.raises(StoreUnavailable):
            throttles.put(PAUSE)
        assert (audited(cluster), list(throttles.ending_after(START))) == ([], [])


@pytest.mark.parametrize("done", [True, False])
def test_throttle_with_lost_answer_is_set_if_it_was_written(cluster: Cluster, clock: ManualClock, done: bool) -> None:
    throttles = CassandraThrottles(LossyCluster(cluster, LOST[0], done=done, at="INTO throttles"), clock)
    if done:
        throttles.put(PAUSE)
    else:
        with pytest.raises(StoreUnavailable):
            throttles.put(PAUSE)
    assert list(throttles.ending_after(START)) == ([PAUSE] if done else [])
    assert audited(cluster) == [("ada", "throttle.put", True)]


def test_audit_row_with_lost_answer_is_written_after_a_foreign_row(cluster: Cluster, clock: ManualClock) -> None:
    other_throttles = CassandraThrottles(cluster, clock)

    def meanwhile() -> None:
        other_throttles.put(replace(PAUSE, id="t9", operator="eve"))

    lossy = LossyCluster(cluster, LOST[0], done=True, at="INTO audit", meanwhile=meanwhile)
    CassandraThrottles(lossy, clock).put(PAUSE)
    assert audited(cluster) == [("eve", "throttle.put", True), ("ada", "throttle.put", True)]


def test_concurrent_operators_are_serialized_in_audit(cluster: Cluster, clock: ManualClock) -> None:
    throttles = CassandraThrottles(cluster, clock)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(throttles.put, [replace(PAUSE, id=f"t{n}") for n in range(8)]))
    assert [good for _, good in audit_entries(cluster)] == [True] * 8
    assert len(throttles.ending_after(START)) == 8


def test_dead_letter_with_lost_line_is_listed_after_retry(cluster: Cluster, clock: ManualClock) -> None:
    letters = CassandraDeadLetters(cluster, clock)
    letter = DeadLetter(id="mentions/0#7", stage="router", cause="not a Mention", body=b"\0", at=START)
    with pytest.raises(StoreUnavailable):
        CassandraDeadLetters(LossyCluster(cluster, LOST[0], done=False, at="INTO dead_letters_by_day"), clock).put(
            letter
        )
    assert letters.list(9) == []
    letters.put(replace(letter, at=START + timedelta(days=1)))
    assert letters.list(9) == [letter]


TALLY = DeadLetterTally(lane="mentions", version=1, seen=7)
STOP = LaneStop(at=START, stopped_by="pump-1", kind=LimitKind.IN_A_ROW, limit=50, record="mentions/0/8", cause="no")


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("done", [True, False])
def test_lane_tally_with_lost_answer_is_known_if_it_was_written(cluster: Cluster, error: Exception, done: bool) -> None:
    lossy = CassandraDeadLetterTallies(LossyCluster(cluster, error, done=done, at="INTO lane_tallies"))
    if done:
        assert lossy.compare_and_set(TALLY) == TALLY
    else:
        with pytest.raises(StoreUnavailable, match="tally of mentions"):
            lossy.compare_and_set(TALLY)
        assert lossy.compare_and_set(TALLY) == TALLY


def test_swap_with_lost_answer_finds_stop_of_other_process(cluster: Cluster) -> None:
    tallies = CassandraDeadLetterTallies(cluster)
    tallies.compare_and_set(TALLY)
    stopped = replace(TALLY, version=2, stop=STOP)
    lossy = LossyCluster(
        cluster, LOST[0], done=True, at="UPDATE lane_tallies", meanwhile=lambda: tallies.compare_and_set(stopped)
    )
    assert CassandraDeadLetterTallies(lossy).compare_and_set(replace(TALLY, version=2, seen=8)) == stopped


def test_lane_is_resumed_only_after_its_audit_row(cluster: Cluster) -> None:
    tallies = CassandraDeadLetterTallies(cluster)
    tallies.compare_and_set(replace(TALLY, stop=STOP))
    with pytest.raises(StoreUnavailable):
        CassandraDeadLetterTallies(LossyCluster(cluster, LOST[0], done=False, at="INTO audit")).resume(
            "mentions", "ada", "x", START
        )
    assert tallies.read(["mentions"])["mentions"].stop == STOP
    assert tallies.resume("mentions", "ada", "fixed", START) == STOP
    assert tallies.resume("mentions", "eve", "again", START) is None
    assert audited(cluster) == [("ada", "lane.resume", True)]


def test_concurrent_counting_misses_no_death(cluster: Cluster) -> None:
    guards = [
        LaneGuard(
            lane="mentions",
            limit=DeadLetterLimit(in_a_row=20),
            tallies=CassandraDeadLetterTallies(cluster),
            clock=ManualClock(),
            metrics=Metrics(),
            owner=f"pump-{number}",
        )
        for number in range(4)
    ]
    with ThreadPoolExecutor(len(guards)) as threads:
        admitted = list(
            threads.map(lambda guard: [guard.admit_dead_letter(f"{guard.owner}/{n}", "no") for n in range(8)], guards)
        )
    assert sum(map(sum, admitted)) == 20
    stored = CassandraDeadLetterTallies(cluster).read(["mentions"])["mentions"]
    assert (stored.in_a_row, stored.stop is not None) == (20, True)
