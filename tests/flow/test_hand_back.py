"""A slice that is too slow for its worker is handed back, and ends all the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from notifier.domain.audience.inbox_rows import InboxRows
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.slice import HAND_BACK_AFTER, Again, Done, Slice, Step
from notifier.flow.delivery.row_writer import SHARDS_AT_ONCE
from notifier.ports.inbox import InboxStore
from notifier.wiring.delivery import build_slice_worker
from tests.support.fakes.clock import ManualClock
from tests.support.in_memory_system import Stage

TOO_SLOW = HAND_BACK_AFTER * 0.6
"""A write: two of them are more than a worker may take."""


@dataclass
class Slow:
    inbox: InboxStore
    clock: ManualClock
    takes: timedelta
    wrote: list[int] = field(default_factory=list)

    def write(self, rows: Sequence[InboxRows], going: Callable[[], None]) -> None:
        self.inbox.write(rows)
        self.clock.advance(self.takes)
        self.wrote += [one.shard for one in rows]


def test_who_comes_next_goes_on_where_the_slow_worker_had_to_stop() -> None:
    stage = Stage()
    stage.mention("nova")
    piece = Slice(stage.bursts()[0], Step.ROWS, Tier.P1, 0, 3 * SHARDS_AT_ONCE - 1)
    slow = Slow(stage.ground.inbox, stage.ground.clock, TOO_SLOW)
    assert build_slice_worker(stage.system(inbox=slow))(piece) == Again(reason="handed back")
    assert slow.wrote == [*range(2 * SHARDS_AT_ONCE)]

    quick = Slow(stage.ground.inbox, stage.ground.clock, timedelta(0))
    outcome = build_slice_worker(stage.system(inbox=quick))(piece)
    assert quick.wrote == [*range(2 * SHARDS_AT_ONCE, 3 * SHARDS_AT_ONCE)]
    assert outcome == Done(people=len(stage.reached()), rows=len(stage.rows()))
    assert stage.reached()


def test_a_claim_outlives_a_store_that_is_slow_with_one_run() -> None:
    stage = Stage()
    stage.mention("nova")
    piece = Slice(stage.bursts()[0], Step.ROWS, Tier.P1, 0, SHARDS_AT_ONCE - 1)
    others: list[object] = []

    def slowly() -> None:
        stage.ground.clock.advance(piece.terms.claim / 4)
        others.append(build_slice_worker(stage.system())(piece))

    crawling = Crawling(stage.ground.inbox, slowly)
    assert isinstance(build_slice_worker(stage.system(inbox=crawling))(piece), Done)
    assert len(others) > 12
    assert set(others) == {Again(reason="somebody else holds it")}


@dataclass
class Crawling:
    inbox: InboxStore
    slowly: Callable[[], None]

    def write(self, rows: Sequence[InboxRows], going: Callable[[], None]) -> None:
        def gone() -> None:
            self.slowly()
            going()

        self.inbox.write(rows, gone)


def test_who_is_told_to_end_hands_back_what_is_under_way() -> None:
    stage = Stage()
    stage.mention("nova")
    piece = Slice(stage.bursts()[0], Step.ROWS, Tier.P1, 0, 3 * SHARDS_AT_ONCE - 1)
    first = Slow(stage.ground.inbox, stage.ground.clock, timedelta(0))
    told = build_slice_worker(stage.system(inbox=first), stopping=lambda: len(first.wrote) > 0)
    assert told(piece) == Again(reason="handed back")
    assert first.wrote == [*range(SHARDS_AT_ONCE)]

    second = Slow(stage.ground.inbox, stage.ground.clock, timedelta(0))
    outcome = build_slice_worker(stage.system(inbox=second))(piece)
    assert second.wrote == [*range(SHARDS_AT_ONCE, 3 * SHARDS_AT_ONCE)]
    assert outcome == Done(people=len(stage.reached()), rows=len(stage.rows()))
