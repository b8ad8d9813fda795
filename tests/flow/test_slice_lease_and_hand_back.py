"""A slow or stopping worker hands its slice back; the next worker resumes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from notifier.domain.audience.inbox_rows import InboxRows
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.slice_and_pool import TIME_SHARE, Done, Retry, Slice, Step
from notifier.flow.delivery.snapshot_and_row_writer import SHARDS_PER_WRITE
from notifier.ports.inbox import InboxStore
from notifier.wiring.delivery import build_slice_worker
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.in_memory_system import Stage

TOO_SLOW = TIME_SHARE * 0.6
"""Duration of one write; two of them exceed a worker's limit."""


@dataclass
class Slow:
    inbox: InboxStore
    clock: ManualClock
    takes: timedelta
    written: list[int] = field(default_factory=list)

    def write(self, rows: Sequence[InboxRows], on_progress: Callable[[], None]) -> None:
        self.inbox.write(rows)
        self.clock.advance(self.takes)
        self.written += [row.shard for row in rows]


def test_next_worker_resumes_where_the_slow_one_stopped() -> None:
    stage = Stage()
    stage.mention("nova")
    slice_ = Slice(stage.bursts()[0], Step.ROWS, Tier.P1, 0, 3 * SHARDS_PER_WRITE - 1)
    slow = Slow(stage.state.inbox, stage.state.clock, TOO_SLOW)
    assert build_slice_worker(stage.system(inbox=slow))(slice_) == Retry(reason="handed back")
    assert slow.written == [*range(2 * SHARDS_PER_WRITE)]

    quick = Slow(stage.state.inbox, stage.state.clock, timedelta(0))
    outcome = build_slice_worker(stage.system(inbox=quick))(slice_)
    assert quick.written == [*range(2 * SHARDS_PER_WRITE, 3 * SHARDS_PER_WRITE)]
    assert outcome == Done(people=len(stage.reached()), row_count=len(stage.rows()))
    assert stage.reached()


def test_claim_is_renewed_during_a_slow_write() -> None:
    stage = Stage()
    stage.mention("nova")
    slice_ = Slice(stage.bursts()[0], Step.ROWS, Tier.P1, 0, SHARDS_PER_WRITE - 1)
    outcomes: list[object] = []

    def slowly() -> None:
        stage.state.clock.advance(slice_.pool_timing.lease / 4)
        outcomes.append(build_slice_worker(stage.system())(slice_))

    slow_inbox = SlowInbox(stage.state.inbox, slowly)
    assert isinstance(build_slice_worker(stage.system(inbox=slow_inbox))(slice_), Done)
    assert len(outcomes) > 12  # three leases
    assert set(outcomes) == {Retry(reason="claimed by another worker")}


@dataclass
class SlowInbox:
    inbox: InboxStore
    slowly: Callable[[], None]

    def write(self, rows: Sequence[InboxRows], on_progress: Callable[[], None]) -> None:
        def renew() -> None:
            self.slowly()
            on_progress()

        self.inbox.write(rows, renew)


def test_stopping_worker_hands_back_its_slice() -> None:
    stage = Stage()
    stage.mention("nova")
    slice_ = Slice(stage.bursts()[0], Step.ROWS, Tier.P1, 0, 3 * SHARDS_PER_WRITE - 1)
    first = Slow(stage.state.inbox, stage.state.clock, timedelta(0))
    run_slice = build_slice_worker(stage.system(inbox=first), is_stopping=lambda: len(first.written) > 0)
    assert run_slice(slice_) == Retry(reason="handed back")
    assert first.written == [*range(SHARDS_PER_WRITE)]

    second = Slow(stage.state.inbox, stage.state.clock, timedelta(0))
    outcome = build_slice_worker(stage.system(inbox=second))(slice_)
    assert second.written == [*range(SHARDS_PER_WRITE, 3 * SHARDS_PER_WRITE)]
    assert outcome == Done(people=len(stage.reached()), row_count=len(stage.rows()))
