"""Slice worker: claims a slice, runs its handler, and records the result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import MAX_ATTEMPTS, Claim, Fact, LedgerEntry, SliceState
from notifier.domain.delivery.slice_and_pool import Dead, Done, Retry, Slice, SliceResult, Step
from notifier.domain.errors import OUTAGES, Poison
from notifier.flow.dead_letter_lane_stops import LaneGuards
from notifier.metrics import Metrics
from notifier.ports.bursts import Bursts
from notifier.ports.event_log_and_dead_letters import DeadLetter, DeadLetters
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.ledger_claims_deferred_bursts_scan import Claims, Ledger

COMPLETED_FACTS = (Fact.DONE, Fact.PULLED)
"""Facts after which a duplicate task of the slice has nothing to do."""


class ClaimLost(Exception):
    """Another worker has claimed the slice since."""


class HandBack(Exception):
    """The slice has used up its time share, or the process is stopping. The next claim resumes at the checkpoint."""


@dataclass(slots=True)
class SliceLease:
    """A worker's claim on its slice. The slice handler renews the claim."""

    claim: Claim
    claims: Claims
    clock: Clock
    on_progress: Callable[[], None] | None = None
    """Called by `renew_if_due`, even if no renewal is due, as a sign of progress."""
    is_stopping: Callable[[], bool] | None = None

    def advance(self, shard: int) -> None:
        """Move the checkpoint to the shard. The next renewal or release stores it."""
        self.claim = replace(self.claim, checkpoint=shard)

    def renew_or_hand_back(self) -> None:
        """Renew the claim if due. Raises ClaimLost, or HandBack if the slice must be handed back.

        Call this between effects. After an exception the next worker repeats the effects since the stored checkpoint.
        """
        stopping = self.is_stopping is not None and self.is_stopping()
        if stopping or self.clock.now() >= self.claim.claimed_at + self.claim.slice.time_share:
            raise HandBack
        self.renew_if_due()

    def renew(self, *, may_hand_back: bool) -> None:
        if may_hand_back:
            self.renew_or_hand_back()
        else:
            self.renew_if_due()

    def renew_if_due(self) -> None:
        """Renew the claim if due, and never hand the slice back. Raises ClaimLost.

        Call this inside an effect, such as a long write. A slow effect that is interrupted to hand the slice back would
        begin again each time, and never complete.
        """
        if self.on_progress is not None:
            self.on_progress()
        now, term = self.clock.now(), self.claim.slice.pool_timing.lease
        if now < self.claim.until - term * 2 / 3:
            return
        renewed = self.claims.renew(self.claim, now + term)
        if renewed is None:
            raise ClaimLost
        self.claim = renewed


class SliceHandler(Protocol):
    def __call__(self, burst: Burst, slice_: Slice, lease: SliceLease) -> LedgerEntry:
        """Process the whole slice; return the ledger entry that completes or defers it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceWorker:
    handlers: Mapping[Step, SliceHandler]
    bursts: Bursts
    claims: Claims
    ledger: Ledger
    dead_letters: DeadLetters
    guards: LaneGuards
    clock: Clock
    metrics: Metrics
    owner: str
    on_progress: Callable[[], None] | None = None
    is_stopping: Callable[[], bool] | None = None

    def __call__(self, slice_: Slice) -> SliceResult:
        result = self._attempt(slice_)
        self.metrics.slices.labels(slice_.pool, type(result).__name__.lower()).inc()
        return result

    def _attempt(self, slice_: Slice) -> SliceResult:
        if self.guards.guard_for(slice_.pool).check() is not None:
            # No claim is taken and no attempt counted: the dispatcher queues the slice again after a resume.
            return Retry(reason="the pool is stopped by its dead-letter limit")
        now = self.clock.now()
        claim = self.claims.claim(slice_, self.owner, now, now + slice_.pool_timing.lease)
        if claim is None:
            return Retry(reason="claimed by another worker")
        lease = SliceLease(claim, self.claims, self.clock, self.on_progress, self.is_stopping)
        try:
            # A slice is completed only under a claim, so at its first claim there is nothing to check.
            if claim.number > 1 and self._is_completed(slice_):
                return Retry(reason="the slice has ended")
            burst = self.bursts.read([slice_.burst])[slice_.burst]
            return self._record_result(self.handlers[slice_.step](burst, slice_, lease), lease)
        except ClaimLost:
            return Retry(reason="the claim was lost")
        except HandBack:
            self.claims.release(lease.claim, self.clock.now())
            return Retry(reason="handed back")
        except OUTAGES as outage:
            # An outage uses up no attempt: the claim expires and the dispatcher queues the slice again.
            self.metrics.outages.labels("store").inc()
            return Retry(reason=str(outage))
        except Exception as cause:
            return self._record_failure(slice_, lease, cause)

    def _record_result(self, entry: LedgerEntry, lease: SliceLease) -> SliceResult:
        # The effects are durable already. After a crash before this entry, the next worker runs the slice again.
        if entry.fact is Fact.DEFERRED:
            return self._defer(entry, lease)
        self.ledger.record([entry])
        self.guards.guard_for(entry.slice.pool).record_successes(1)
        return Done(people=entry.people, row_count=entry.row_count)

    def _defer(self, entry: LedgerEntry, lease: SliceLease) -> SliceResult:
        # Record the deferral before releasing the claim, or the dispatcher would queue the slice at once. After a crash
        # between the two, the claim expires.
        # A worker that lost its claim must not replace the time that the current worker has recorded. So check the
        # claim first, and give each deferral a number of its own.
        lease.renew_if_due()
        number = self._slice_states(entry.slice)[entry.slice].times_deferred + 1
        while not all(self.ledger.record([replace(entry, number=number)])):
            number += 1
        self.claims.release(lease.claim, self.clock.now())
        return Retry(reason=f"waits until {entry.at:%H:%M:%S}")

    def _is_completed(self, slice_: Slice) -> bool:
        state = self._slice_states(slice_).get(slice_)
        return bool(state and state.final_entry and state.final_entry.fact in COMPLETED_FACTS)

    def _slice_states(self, slice_: Slice) -> Mapping[Slice, SliceState]:
        return self.ledger.read([slice_.burst])[slice_.burst].slice_states

    def _record_failure(self, slice_: Slice, lease: SliceLease, cause: Exception) -> SliceResult:
        """Record a failure that is no outage. Dead-letter the slice after MAX_ATTEMPTS failures."""
        now = self.clock.now()
        failures = self._slice_states(slice_)[slice_].failure_count + 1
        reason = f"{type(cause).__name__}: {cause}"
        self.ledger.record([LedgerEntry(slice=slice_, fact=Fact.ATTEMPT, number=failures, at=now, note=reason)])
        if failures < MAX_ATTEMPTS:
            # Keep the claim if a record is unreadable: until the claim expires, the record may be repaired.
            if not isinstance(cause, Poison):
                self.claims.release(lease.claim, now)
            return Retry(reason=reason)
        # Count the dead letter before writing it. If the limit is reached, the slice stays open until a resume.
        if not self.guards.guard_for(slice_.pool).admit_dead_letter(str(slice_), reason):
            return Retry(reason="the pool is stopped by its dead-letter limit")
        self._dead_letter(slice_, reason, now)
        return Dead(cause=reason)

    def _dead_letter(self, slice_: Slice, reason: str, now: datetime) -> None:
        # Write the dead letter first: a slice that is dead in the ledger must have one, so that it can be investigated.
        letter = DeadLetter(id=str(slice_), stage=slice_.pool, cause=reason, body=str(slice_).encode(), at=now)
        self.dead_letters.put(letter)
        self.ledger.record([LedgerEntry(slice=slice_, fact=Fact.DEAD, at=now, note=reason)])
        self.metrics.dead_letters.labels(slice_.pool).inc()
