"""An unreadable bitmap is rebuilt from the rows, and the burst waits for it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.delivery.ledger import MAX_ATTEMPTS, Fact
from notifier.domain.delivery.slice_and_pool import Retry
from notifier.domain.errors import LogUnavailable
from notifier.domain.ids import Subject, UserId
from notifier.flow.indexing.bitmap_updates_and_repair import REQUEST_INTERVAL
from notifier.ports.event_log_and_dead_letters import Record
from notifier.wiring.delivery import build_slice_worker
from tests.support.corrupt_member_sets import CorruptSets
from tests.support.in_memory_system import NOVA, Stage


def damaged(kind: SetKind, owner: Subject | None = NOVA) -> Stage:
    stage = Stage()
    stage.ports = replace(stage.ports, sets=CorruptSets(stage.state.sets, kind, owner))
    return stage


def facts(stage: Stage) -> set[Fact]:
    return {
        status.final_entry.fact
        for progress in stage.state.store_scan.burst_progress()
        for status in progress.slice_states.values()
        if status.final_entry
    }


def reached(stage: Stage, *, protected: bool = False) -> set[int]:
    stage.mention("nova", protected=protected)
    return delivered(stage)


def delivered(stage: Stage, seconds: int = 1) -> set[int]:
    """Run workers until no burst is open; the indexer handles their rebuild orders between attempts."""
    for _ in range(60):
        stage.dispatch()
        stage.work()
        stage.sequence()
        stage.pass_time(seconds=seconds)
        if not stage.state.ledger.unfinished_bursts():
            return stage.reached()
    raise AssertionError(stage.state.ledger.unfinished_bursts())


@pytest.mark.parametrize(
    ("kind", "owner"), [(SetKind.FOLLOWERS, NOVA), (SetKind.MUTED, NOVA), (SetKind.OVERALL_OFF, None)]
)
def test_burst_waits_for_the_rebuild_of_an_unreadable_bitmap(kind: SetKind, owner: Subject | None) -> None:
    stage = damaged(kind, owner)
    assert reached(stage) == reached(Stage()) != set()
    assert (facts(stage), list(stage.state.dead_letters.list(9))) == ({Fact.DONE}, [])


def test_restricted_burst_waits_for_the_authors_follower_bitmap() -> None:
    intact, stage = Stage(), damaged(SetKind.FOLLOWERS, Subject(NOVA.kind, UserId("ada")))
    for stage_ in (intact, stage):
        stage_.followed("kim", "ada", sequence=1)
    stage.ports.sets.is_damaged = True  # type: ignore[attr-defined]  # it is a CorruptSets
    assert reached(stage, protected=True) == reached(intact, protected=True)
    assert facts(stage) == {Fact.DONE}


def test_rebuild_is_not_ordered_by_every_attempt() -> None:
    stage = damaged(SetKind.FOLLOWERS)
    stage.mention("nova")
    work = build_slice_worker(stage.system())
    orders: list[int] = []
    for _ in range(int(REQUEST_INTERVAL.total_seconds()) + 2):
        stage.dispatch()
        stage.work(by=work)
        orders.append(len(list(stage.state.log.read_uncommitted("follows", "graph_indexer", 999))))
        stage.pass_time(seconds=1)
    interval = int(REQUEST_INTERVAL.total_seconds())
    assert orders[0] > 0
    assert orders == [orders[0]] * interval + [2 * orders[0]] * 2


def test_rebuild_is_ordered_again_after_a_crash() -> None:
    stage = damaged(SetKind.FOLLOWERS)
    stage.mention("nova")
    stage.dispatch()
    crashing = build_slice_worker(stage.system(log=UnwritableLog(stage.ports.log)))
    assert Retry in {type(outcome) for outcome in stage.work(by=crashing)}
    assert (delivered(stage), facts(stage)) == (reached(Stage()), {Fact.DONE})


def test_slice_dies_of_a_bitmap_that_cannot_be_rebuilt() -> None:
    """Active users are known only by their bitmaps, which no rows can restore; the roll-up writes them each minute."""
    stage = damaged(SetKind.ACTIVE_24H, None)
    stage.mention("nova")
    for _ in range(2 * MAX_ATTEMPTS):
        stage.dispatch()
        stage.work()
    assert facts(stage) == set()
    delivered(stage, seconds=61)
    assert Fact.DEAD in facts(stage)


@dataclass(frozen=True)
class UnwritableLog:
    port: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def append(self, records: Sequence[Record]) -> None:
        raise LogUnavailable
