"""Delivery accounting: recipients of a burst by state, progress of its tiers, and delivery rate."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR, SnapshotCounts
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact, SliceState, State
from notifier.domain.delivery.slice_and_pool import Slice, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientTotals:
    """Number of recipients of a burst by state, over the shards with an audience snapshot."""

    expected: int
    delivered: int
    suppressed: int
    parked: int
    pulled: int
    dead: int
    in_flight: int
    expired: bool = False
    """The audience snapshots have expired or are about to, so the numbers can no longer be checked."""

    @property
    def is_balanced(self) -> bool:
        parts = self.delivered + self.suppressed + self.parked + self.pulled + self.dead + self.in_flight
        return self.expected == parts


def recipient_totals(
    progress: BurstProgress, shard_counts: Iterable[SnapshotCounts], *, throttle_ids: Collection[str], now: datetime
) -> RecipientTotals:
    """Add up the recipients of each state. `throttle_ids` are those of the throttles that hold work now.

    An unfinished slice that is not parked counts as in flight. The ledger entry of a dead slice has no count, so its
    recipients come from the audience snapshots.
    """
    by_shard = {counts.shard: counts for counts in shard_counts}
    finished_counts = {State.DONE: 0, State.PULLED: 0, State.DEAD: 0}
    unfinished_counts = {State.PARKED: 0, State.IN_FLIGHT: 0}
    for slice_state in progress.slice_states.values():
        slice_ = slice_state.slice
        if slice_.step is not Step.ROWS:
            continue
        recipients = _snapshot_recipients(by_shard, slice_)
        if slice_state.final_entry:
            is_dead = slice_state.final_entry.fact is Fact.DEAD
            finished_counts[State(str(slice_state.final_entry.fact))] += (
                recipients if is_dead else slice_state.final_entry.people
            )
            continue
        is_parked = slice_state.state(now, throttle_ids=throttle_ids) is State.PARKED
        unfinished_counts[State.PARKED if is_parked else State.IN_FLIGHT] += recipients
    return RecipientTotals(
        expected=sum(counts.expected for counts in by_shard.values()),
        delivered=finished_counts[State.DONE],
        suppressed=sum(counts.suppressed for counts in by_shard.values()),
        parked=unfinished_counts[State.PARKED],
        pulled=finished_counts[State.PULLED],
        dead=finished_counts[State.DEAD],
        in_flight=unfinished_counts[State.IN_FLIGHT],
        expired=now >= progress.plan.opened_at + SNAPSHOT_KEPT_FOR,
    )


def _snapshot_recipients(by_shard: dict[int, SnapshotCounts], slice_: Slice) -> int:
    return sum(by_shard[shard].reached[slice_.tier] for shard in slice_.shards if shard in by_shard)


# Progress of a burst: the state of its shards in each tier, and the recent delivery rate.


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSpan:
    """Consecutive shards in the same state."""

    first: int
    last: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class TierProgress:
    tier: Tier
    spans: Sequence[ShardSpan]
    """In shard order, without shards that have no followers."""
    people: int
    """Number of recipients in slices that are done."""
    slice_count: int
    ended_count: int
    seconds: float | None
    """Time from the acceptance of the first mention to the end of the last slice; None while work is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRate:
    """Average rates per second."""

    rows: float
    deliveries: float


def tier_progress(progress: BurstProgress, *, throttle_ids: Collection[str], now: datetime) -> Sequence[TierProgress]:
    return [_tier_progress(progress, tier, throttle_ids, now) for tier in TIERS if tier in progress.plan.widths]


def delivery_rate(all_progress: Iterable[BurstProgress], *, now: datetime, period: timedelta) -> DeliveryRate:
    """Return the average rate of the slices that finished within the period before `now`."""
    recent = [
        slice_state.final_entry
        for progress in all_progress
        for slice_state in progress.slice_states.values()
        if slice_state.slice.step is Step.ROWS
        and slice_state.final_entry
        and now - period < slice_state.final_entry.at <= now
    ]
    seconds = period.total_seconds()
    done = [entry for entry in recent if entry.row_count]
    return DeliveryRate(rows=sum(e.row_count for e in done) / seconds, deliveries=sum(e.people for e in done) / seconds)


def _tier_progress(progress: BurstProgress, tier: Tier, throttle_ids: Collection[str], now: datetime) -> TierProgress:
    in_tier = (s for s in progress.slice_states.values() if s.slice.tier is tier and s.slice.step is Step.ROWS)
    slice_states = sorted(in_tier, key=lambda slice_state: slice_state.slice.first)
    final_entries = [slice_state.final_entry for slice_state in slice_states if slice_state.final_entry]
    last_end = (
        max((entry.at for entry in final_entries), default=None) if len(final_entries) == len(slice_states) else None
    )
    return TierProgress(
        tier=tier,
        spans=_merged(span for slice_state in slice_states for span in _spans(slice_state, throttle_ids, now)),
        people=sum(entry.people for entry in final_entries if State(str(entry.fact)) is State.DONE),
        slice_count=len(slice_states),
        ended_count=len(final_entries),
        seconds=(last_end - progress.plan.accepted_at).total_seconds() if last_end else None,
    )


def _spans(slice_state: SliceState, throttle_ids: Collection[str], now: datetime) -> Iterator[ShardSpan]:
    """Yield the spans of a slice. Shards below the checkpoint in the claim of an unfinished slice are done."""
    slice_, state = slice_state.slice, slice_state.state(now, throttle_ids=throttle_ids)
    checkpoint = slice_state.claim.checkpoint if slice_state.claim and not slice_state.final_entry else slice_.first
    if checkpoint > slice_.first:
        yield ShardSpan(first=slice_.first, last=min(checkpoint, slice_.last + 1) - 1, state=State.DONE)
    if max(checkpoint, slice_.first) <= slice_.last:
        yield ShardSpan(first=max(checkpoint, slice_.first), last=slice_.last, state=state)


def _merged(spans: Iterable[ShardSpan]) -> Sequence[ShardSpan]:
    merged: list[ShardSpan] = []
    for span in spans:
        if merged and (merged[-1].last + 1, merged[-1].state) == (span.first, span.state):
            merged[-1] = ShardSpan(first=merged[-1].first, last=span.last, state=span.state)
        else:
            merged.append(span)
    return merged
