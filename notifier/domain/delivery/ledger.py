"""Ledger: write-once facts about slices, and the state derived from them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_due_times_alert_ages import LATE_AFTER
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Slice, Step


class Fact(StrEnum):
    """Kinds of ledger entries, in rising rank.

    If a slice has several final ones (PULLED, DEAD, DONE), the one with the highest rank counts.
    """

    DISPATCHED = "dispatched"
    """Queued for the n-th time."""
    ATTEMPT = "attempt"
    """Failed for the n-th time, and not because of an outage."""
    DEFERRED = "deferred"
    """Deferred for the n-th time: it can't run before a known time."""
    PARKED = "parked"
    PULLED = "pulled"
    """Expired: rows are left to the pull path, and alerts are not sent."""
    DEAD = "dead"
    """Moved to the dead letters."""
    DONE = "done"


MAX_ATTEMPTS = 5
"""Failures after which a slice is dead. Outages don't count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One entry of the ledger. The first writer of a (slice, fact, number) wins."""

    slice: Slice
    fact: Fact
    number: int = 0
    """Number of the dispatch, failure, deferral or parking; 0 for final facts."""
    at: datetime
    """Time of the fact; for DEFERRED the wake-up time."""
    people: int = 0
    """Number of recipients in the audience snapshots; for push slices, of members that were sent an alert."""
    row_count: int = 0
    alert_count: int | None = None
    """For finished rows: number of members to alert in the audience snapshots; None if not counted."""
    note: str = ""
    """The throttle that parked the slice, or the cause of the failed attempt or of the death."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker's lease on a slice."""

    slice: Slice
    number: int
    """Each new claim on the slice has a higher number."""
    owner: str
    claimed_at: datetime
    until: datetime
    checkpoint: int = 0
    """Shards below this one are done. The next claim resumes here, so a slow slice still finishes."""


class State(StrEnum):
    PLANNED = "planned"
    PARKED = "parked"
    DEFERRED = "deferred"
    IN_FLIGHT = "in_flight"
    PULLED = "pulled"
    DEAD = "dead"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceState:
    """State of one slice, derived from its facts and its claim."""

    slice: Slice
    times_dispatched: int = 0
    dispatched_at: datetime | None = None
    failure_count: int = 0
    times_deferred: int = 0
    deferred_until: datetime | None = None
    parked_by: frozenset[str] = frozenset()
    """Throttles that parked the slice, according to the ledger."""
    final_entry: LedgerEntry | None = None
    claim: Claim | None = None

    def with_entry(self, entry: LedgerEntry) -> "SliceState":
        match entry.fact:
            case Fact.DISPATCHED if entry.number > self.times_dispatched:
                return replace(self, times_dispatched=entry.number, dispatched_at=entry.at)
            case Fact.DISPATCHED:
                return self
            case Fact.ATTEMPT:
                return replace(self, failure_count=max(self.failure_count, entry.number))
            case Fact.DEFERRED:
                return (
                    replace(self, times_deferred=entry.number, deferred_until=entry.at)
                    if entry.number > self.times_deferred
                    else self
                )
            case Fact.PARKED:
                return replace(self, parked_by=self.parked_by | {entry.note})
            case Fact.PULLED | Fact.DEAD | Fact.DONE:
                is_higher = self.final_entry is None or fact_rank(entry.fact) > fact_rank(self.final_entry.fact)
                return replace(self, final_entry=entry) if is_higher else self

    def is_deferred(self, now: datetime) -> bool:
        return self.final_entry is None and self.deferred_until is not None and now < self.deferred_until

    def busy_until(self) -> datetime | None:
        """Return when the slice may be queued again; None if it was never queued, or has been deferred since.

        A claim made after the last dispatch proves that a worker has got the task. An earlier claim proves nothing:
        the task may be lost. But the worker with that claim may still be running.
        """
        if self.dispatched_at is None or (self.deferred_until is not None and self.dispatched_at < self.deferred_until):
            return None
        lost_at = self.dispatched_at + self.slice.pool_timing.requeue_after
        if self.claim is None:
            return lost_at
        is_confirmed = self.claim.claimed_at >= self.dispatched_at
        return self.claim.until if is_confirmed else max(lost_at, self.claim.until)

    def is_in_flight(self, now: datetime) -> bool:
        until = self.busy_until()
        return self.final_entry is None and until is not None and now < until

    def state(self, now: datetime, *, throttle_ids: Collection[str]) -> State:
        """Return the current state. `throttle_ids` are those of the throttles that hold work now."""
        if self.final_entry is not None:
            return State(str(self.final_entry.fact))
        if self.is_deferred(now):
            return State.DEFERRED
        if self.is_in_flight(now):
            return State.IN_FLIGHT
        return State.PARKED if self.parked_by & set(throttle_ids) else State.PLANNED


def fact_rank(fact: Fact) -> int:
    return list(Fact).index(fact)


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstProgress:
    """A burst's plan and the state of its slices."""

    plan: Plan
    slice_states: Mapping[Slice, SliceState] = field(default_factory=dict)

    @property
    def is_finished(self) -> bool:
        return all(slice_state.final_entry for slice_state in self.slice_states.values())

    def with_entry(self, entry: LedgerEntry) -> "BurstProgress":
        slice_states = {**self.slice_states, entry.slice: self.slice_states[entry.slice].with_entry(entry)}
        if entry.alert_count == 0:
            for slice_ in _push_slices_of(entry.slice):
                slice_states.pop(slice_, None)
        return replace(self, slice_states=slice_states)

    def are_rows_finished(self, slice_: Slice) -> bool:
        """Return whether the rows that a push slice must wait for are finished.

        A member is alerted only when the inbox shows the burst: the member's row is durable, or left to the pull path.
        """
        rows = self.slice_states.get(slice_.rows_slice)
        return rows is not None and rows.final_entry is not None

    def is_runnable(self, slice_state: SliceState, now: datetime) -> bool:
        """Return whether the slice is neither finished nor deferred, and waits for no other slice."""
        if slice_state.final_entry or slice_state.is_deferred(now):
            return False
        return slice_state.slice.step is Step.ROWS or self.are_rows_finished(slice_state.slice)

    def expires_at(self, slice_: Slice) -> datetime:
        """Return when the slice expires, by the age of the burst.

        Rows expire hours before push slices, and then count as finished. So alerts are sent even if a throttle held the
        rows.
        """
        return self.plan.opened_at + slice_.pool_timing.expires_after


def burst_progress(plan: Plan, entries: Iterable[LedgerEntry], claims: Iterable[Claim]) -> BurstProgress:
    """Derive the progress of a burst, without push slices that have no member to alert."""
    entries = list(entries)
    without_alerts = {entry.slice for entry in entries if entry.alert_count == 0}
    slices = (
        slice_
        for slice_ in plan.slices()
        if slice_.step is Step.ROWS or not without_alerts or slice_.rows_slice not in without_alerts
    )
    slice_states = {slice_: SliceState(slice=slice_) for slice_ in slices}
    for entry in entries:
        if entry.slice in slice_states:
            slice_states[entry.slice] = slice_states[entry.slice].with_entry(entry)
    for claim in claims:
        if claim.slice in slice_states:
            slice_states[claim.slice] = replace(slice_states[claim.slice], claim=claim)
    return BurstProgress(plan=plan, slice_states=slice_states)


def _push_slices_of(rows: Slice) -> Iterator[Slice]:
    for tier in (rows.tier, Tier.DORMANT) if rows.tier is Tier.P2 else (rows.tier,):
        yield from (replace(rows, step=step, tier=tier) for step in PUSH_STEPS)


def is_late(opened: Burst | Plan, now: datetime) -> bool:
    """Return whether alerts for the burst are late."""
    return now > opened.opened_at + LATE_AFTER


def is_late_push(progress: BurstProgress, slice_: Slice, now: datetime) -> bool:
    return slice_.step is not Step.ROWS and is_late(progress.plan, now)
