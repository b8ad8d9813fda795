"""Workers renew leases, hand slices back, and record nothing without their lease."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from notifier.domain.audience.bitmap import Bits, from_offsets
from notifier.domain.audience.inbox_rows import InboxRows
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.slice_and_pool import TIME_SHARE, Done, Pool, Retry, Slice, Step
from notifier.domain.ids import BurstKey
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.flow.delivery.snapshot_and_row_writer import SHARDS_PER_WRITE
from notifier.ports.inbox import InboxStore
from notifier.ports.ledger_claims_deferred_bursts_scan import Ledger
from notifier.wiring.delivery import build_slice_worker
from notifier.wiring.push import build_push_pipeline
from tests.flow.test_alert_suppression_and_expiry import alerted, write_rows
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


def test_claim_is_renewed_during_slow_reads() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.deliver()
    [key] = stage.bursts()
    burst, clock, claims = stage.state.bursts.by_key[key], stage.state.clock, stage.state.claims
    slice_ = Slice(key, Step.FCM, Tier.P0, 0, 4)

    class AlertedEverywhere:
        def read_to_alert(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]:
            return {shard: from_offsets([1]) for shard in shards}

    class Slow:
        def drafts(self, *args: Any) -> Iterator[Any]:
            clock.advance(slice_.pool_timing.lease / 2)
            return iter(())

    pipeline_ports: Any = {"audience_snapshots": AlertedEverywhere(), "selection": Slow()}
    claim = claims.claim(slice_, "one", clock.now(), clock.now() + slice_.pool_timing.lease)
    assert claim is not None
    replace(build_push_pipeline(stage.system()), **pipeline_ports)(burst, slice_, SliceLease(claim, claims, clock))
    assert claims.claim(slice_, "other", clock.now(), clock.now() + slice_.pool_timing.lease) is None


@dataclass(frozen=True)
class LateWrites:
    """A worker that lost the slice records a wait of 8 hours right before the current worker."""

    ledger: Ledger

    def __getattr__(self, method: str) -> Any:
        return getattr(self.ledger, method)

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        waits = [entry for entry in entries if entry.fact is Fact.DEFERRED and entry.number == 1]
        self.ledger.record([replace(entry, at=entry.at + timedelta(hours=8)) for entry in waits])
        return self.ledger.record(entries)


def test_only_lease_holder_can_defer_slice() -> None:
    stage = Stage()
    stage.state.phones.away = True
    stage.mention("nova")
    write_rows(stage)
    stage.pass_time(seconds=1)
    stage.dispatch()
    late_writes: Any = LateWrites(stage.state.ledger)
    stage.work(Pool.FCM, by=build_slice_worker(stage.system(ledger=late_writes)))
    stage.state.phones.away = False
    stage.deliver(rounds=90)
    assert alerted(stage) == {"kim", "lee", "roy"}


def test_worker_that_lost_its_lease_records_no_wait() -> None:
    stage = Stage()
    stage.mention("nova")
    [key] = stage.bursts()
    clock, slice_ = stage.state.clock, Slice(key, Step.FCM, Tier.P0, 0, 0)

    def stall_past_lease(burst: Burst, slice_: Slice, lease: SliceLease) -> LedgerEntry:
        clock.advance(slice_.pool_timing.lease)
        now = clock.now()
        assert stage.state.claims.claim(slice_, "other", now, now + slice_.pool_timing.lease) is not None
        return LedgerEntry(slice=slice_, fact=Fact.DEFERRED, number=0, at=now + timedelta(hours=8))

    work = build_slice_worker(stage.system())
    outcome = replace(work, handlers={**work.handlers, Step.FCM: stall_past_lease})(slice_)
    assert outcome == Retry(reason="the claim was lost")
    assert stage.state.ledger.read([key])[key].slice_states[slice_].deferred_until is None
