"""What throttles, dead letters and lane tallies owe to Cassandra alone: an audit before each deed, and lost answers."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.cassandra import (
    CassandraDeadLetters,
    CassandraLaneTallies,
    CassandraThrottles,
    Cluster,
)
from notifier.adapters.cassandra.stores.coordination import entries
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit, LaneStop, LaneTally, LimitKind
from notifier.domain.delivery.throttle import Throttle
from notifier.domain.errors import StoreUnavailable
from notifier.flow.lane_guard import LaneGuard
from notifier.metrics import Metrics
from notifier.ports.event_log import DeadLetter
from tests.support.fakes.clock import START, ManualClock
from tests.support.lossy_cassandra import LOST, ON_ENGINES, Losing, clock, cluster, made

__all__ = ["clock", "cluster", "made"]

pytestmark = ON_ENGINES

TERM = timedelta(seconds=4)

PAUSE = Throttle(id="t1", tier=Tier.P2, rate=None, reason="disk", who="ada", starts_at=START, ends_at=START + TERM)


def told(cluster: Cluster) -> list[tuple[str, str, bool]]:
    return [
        (entry["who"], entry["what"], good) for entry, good in ((json.loads(b), good) for b, good in entries(cluster))
    ]


def test_every_change_of_a_throttle_is_in_the_audit_with_who_did_it(cluster: Cluster, clock: ManualClock) -> None:
    throttles = CassandraThrottles(cluster, clock)
    throttles.put(PAUSE)
    throttles.lift("t1", "bob", START + TERM / 2)
    throttles.lift("t1", "eve", START + TERM / 2)
    assert told(cluster) == [("ada", "throttle.put", True), ("bob", "throttle.lift", True)]


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE audit SET body = 0x00 WHERE book = 'audit' AND number = 1",
        "DELETE FROM audit WHERE book = 'audit' AND number = 1",
        "UPDATE audit SET hash = 0x00 WHERE book = 'audit' AND number = 2",
    ],
)
def test_an_audit_that_was_tampered_with_shows(cluster: Cluster, clock: ManualClock, tamper: str) -> None:
    for id in ("t1", "t2", "t3"):
        CassandraThrottles(cluster, clock).put(replace(PAUSE, id=id))
    assert all(good for _, good in entries(cluster))
    # Conditional, as a plain write could lose by its clock to what was decided before.
    assert cluster.execute(f"{tamper} IF EXISTS")[0].applied
    assert not all(good for _, good in entries(cluster))


@pytest.mark.parametrize("done", [True, False])
def test_no_throttle_is_set_whose_audit_row_is_not_known_to_stand(
    cluster: Cluster, clock: ManualClock, done: bool
) -> None:
    throttles = CassandraThrottles(Losing(cluster, LOST[0], done=done, at="INTO audit"), clock)
    if done:
        throttles.put(PAUSE)
        assert (len(told(cluster)), list(throttles.since(START))) == (1, [PAUSE])
    else:
        with pytest.raises(StoreUnavailable):
            throttles.put(PAUSE)
        assert (told(cluster), list(throttles.since(START))) == ([], [])


@pytest.mark.parametrize("done", [True, False])
def test_a_throttle_whose_answer_was_lost_is_set_if_it_stands(cluster: Cluster, clock: ManualClock, done: bool) -> None:
    throttles = CassandraThrottles(Losing(cluster, LOST[0], done=done, at="INTO throttles"), clock)
    if done:
        throttles.put(PAUSE)
    else:
        with pytest.raises(StoreUnavailable):
            throttles.put(PAUSE)
    assert list(throttles.since(START)) == ([PAUSE] if done else [])
    assert told(cluster) == [("ada", "throttle.put", True)]


def test_who_finds_anothers_row_where_his_answer_was_lost_writes_behind_it(
    cluster: Cluster, clock: ManualClock
) -> None:
    other = CassandraThrottles(cluster, clock)

    def meanwhile() -> None:
        other.put(replace(PAUSE, id="t9", who="eve"))

    losing = Losing(cluster, LOST[0], done=True, at="INTO audit", meanwhile=meanwhile)
    CassandraThrottles(losing, clock).put(PAUSE)
    assert told(cluster) == [("eve", "throttle.put", True), ("ada", "throttle.put", True)]


def test_operators_at_the_same_moment_are_one_after_another_in_the_audit(cluster: Cluster, clock: ManualClock) -> None:
    throttles = CassandraThrottles(cluster, clock)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(throttles.put, [replace(PAUSE, id=f"t{n}") for n in range(8)]))
    assert [good for _, good in entries(cluster)] == [True] * 8
    assert len(throttles.since(START)) == 8


def test_a_letter_whose_line_was_lost_is_listed_when_it_is_put_again(cluster: Cluster, clock: ManualClock) -> None:
    letters = CassandraDeadLetters(cluster, clock)
    letter = DeadLetter(id="mentions/0#7", stage="router", cause="not a Mention", body=b"\0", at=START)
    with pytest.raises(StoreUnavailable):
        CassandraDeadLetters(Losing(cluster, LOST[0], done=False, at="INTO dead_letters_of_day"), clock).put(letter)
    assert letters.list(9) == []
    letters.put(replace(letter, at=START + timedelta(days=1)))
    assert letters.list(9) == [letter]


TALLY = LaneTally(lane="mentions", version=1, seen=7)
STOP = LaneStop(at=START, who="pump-1", kind=LimitKind.IN_A_ROW, limit=50, record="mentions/0/8", cause="no")


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("done", [True, False])
def test_lane_tally_whose_answer_was_lost_is_known_if_it_stands(cluster: Cluster, error: Exception, done: bool) -> None:
    losing = CassandraLaneTallies(Losing(cluster, error, done=done, at="INTO lane_tallies"))
    if done:
        assert losing.swap(TALLY) == TALLY
    else:
        with pytest.raises(StoreUnavailable, match="tally of mentions"):
            losing.swap(TALLY)
        assert losing.swap(TALLY) == TALLY


def test_process_whose_answer_was_lost_finds_the_stop_of_another(cluster: Cluster) -> None:
    tallies = CassandraLaneTallies(cluster)
    tallies.swap(TALLY)
    stopped = replace(TALLY, version=2, stop=STOP)
    losing = Losing(cluster, LOST[0], done=True, at="UPDATE lane_tallies", meanwhile=lambda: tallies.swap(stopped))
    assert CassandraLaneTallies(losing).swap(replace(TALLY, version=2, seen=8)) == stopped


def test_lane_is_resumed_only_behind_its_audit_row(cluster: Cluster) -> None:
    tallies = CassandraLaneTallies(cluster)
    tallies.swap(replace(TALLY, stop=STOP))
    with pytest.raises(StoreUnavailable):
        CassandraLaneTallies(Losing(cluster, LOST[0], done=False, at="INTO audit")).resume(
            "mentions", "ada", "x", START
        )
    assert tallies.read(["mentions"])["mentions"].stop == STOP
    assert tallies.resume("mentions", "ada", "fixed", START) == STOP
    assert tallies.resume("mentions", "eve", "again", START) is None
    assert told(cluster) == [("ada", "lane.resume", True)]


def test_processes_that_count_at_once_miss_no_death(cluster: Cluster) -> None:
    guards = [
        LaneGuard(
            lane="mentions",
            limit=DeadLetterLimit(in_a_row=20),
            tallies=CassandraLaneTallies(cluster),
            clock=ManualClock(),
            metrics=Metrics(),
            owner=f"pump-{number}",
        )
        for number in range(4)
    ]
    with ThreadPoolExecutor(len(guards)) as threads:
        found = list(
            threads.map(lambda guard: [guard.admit_death(f"{guard.owner}/{n}", "no") for n in range(8)], guards)
        )
    assert sum(map(sum, found)) == 20
    stored = CassandraLaneTallies(cluster).read(["mentions"])["mentions"]
    assert (stored.in_a_row, stored.stop is not None) == (20, True)
