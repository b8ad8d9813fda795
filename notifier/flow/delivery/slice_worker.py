"""Slice worker: claim one slice, run its handler, record the result in the ledger."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import ATTEMPTS, Claim, Fact, LedgerEntry, SliceState
from notifier.domain.delivery.slice import Again, Dead, Done, Outcome, Slice, Step
from notifier.domain.errors import OUTAGES, Poison
from notifier.flow.lane_guard import LaneGuards
from notifier.metrics import Metrics
from notifier.ports.bursts import Bursts
from notifier.ports.coordination import Clock
from notifier.ports.event_log import DeadLetter, DeadLetters
from notifier.ports.ledger import Claims, Ledger

DONE_WITH = (Fact.DONE, Fact.PULLED)
"""Facts after which a duplicate task of the slice has nothing to do."""


class LostClaim(Exception):
    """Another worker holds the slice by now."""


class HandBack(Exception):
    """The slice used up its time share, or the worker is stopping; another worker resumes from the checkpoint."""


@dataclass(slots=True)
class SliceLease:
    """A claim on a slice that renews itself while the work goes on."""

    claim: Claim
    claims: Claims
    clock: Clock
    alive: Callable[[], None] | None = None
    """Called after each step of progress."""
    stopping: Callable[[], bool] | None = None
    """Returns whether the process is stopping; another worker then resumes from the checkpoint."""

    def reach(self, shard: int) -> None:
        """Record that all shards below this one are done."""
        self.claim = replace(self.claim, reached=shard)

    def keep(self) -> None:
        """Call between effects. Raises LostClaim or HandBack.

        The next holder may write everything written before the exception again.
        """
        stopping = self.stopping is not None and self.stopping()
        if stopping or self.clock.now() >= self.claim.claimed_at + self.claim.slice.turn:
            raise HandBack
        self.going()

    def checkpoint(self, *, may_hand_back: bool) -> None:
        """Renew the claim if due. Raises LostClaim; HandBack only with `may_hand_back`."""
        if may_hand_back:
            self.keep()
        else:
            self.going()

    def going(self) -> None:
        """Renew the claim if due. Call inside an effect that must not be interrupted. Raises LostClaim.

        Handing back in the middle of a slow effect would restart it forever.
        """
        if self.alive is not None:
            self.alive()
        now, term = self.clock.now(), self.claim.slice.terms.claim
        if now < self.claim.until - term * 2 / 3:
            return
        renewed = self.claims.renew(self.claim, now + term)
        if renewed is None:
            raise LostClaim
        self.claim = renewed


class Doing(Protocol):
    def __call__(self, burst: Burst, piece: Slice, hold: SliceLease) -> LedgerEntry:
        """Process the whole slice; return the ledger entry that completes or defers it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    doings: Mapping[Step, Doing]
    bursts: Bursts
    claims: Claims
    ledger: Ledger
    dead_letters: DeadLetters
    guards: LaneGuards
    clock: Clock
    metrics: Metrics
    owner: str
    alive: Callable[[], None] | None = None
    stopping: Callable[[], bool] | None = None

    def __call__(self, piece: Slice) -> Outcome:
        outcome = self._attempt(piece)
        self.metrics.slices.labels(piece.pool, type(outcome).__name__.lower()).inc()
        return outcome

    def _attempt(self, piece: Slice) -> Outcome:
        if self.guards.of(piece.pool).check() is not None:
            # Not claimed and not counted as an attempt: the dispatcher queues the slice again after a resume.
            return Again(reason="the pool is stopped by its dead-letter limit")
        now = self.clock.now()
        claim = self.claims.claim(piece, self.owner, now, now + piece.terms.claim)
        if claim is None:
            return Again(reason="somebody else holds it")
        hold = SliceLease(claim, self.claims, self.clock, self.alive, self.stopping)
        try:
            # The first claim needs no check: a slice completes only after a claim.
            if claim.attempt > 1 and self._ended(piece):
                return Again(reason="it has ended")
            burst = self.bursts.read([piece.burst])[piece.burst]
            return self._end(self.doings[piece.step](burst, piece, hold), hold)
        except LostClaim:
            return Again(reason="the claim was lost")
        except HandBack:
            self.claims.release(hold.claim, self.clock.now())
            return Again(reason="handed back")
        except OUTAGES as outage:
            # An outage uses up no attempt: the claim expires and the dispatcher queues the slice again.
            self.metrics.outages.labels("store").inc()
            return Again(reason=str(outage))
        except Exception as cause:
            return self._failed(piece, hold, cause)

    def _end(self, entry: LedgerEntry, hold: SliceLease) -> Outcome:
        # Rows are durable before the ledger entry. A crash in between writes the same rows again.
        if entry.fact is Fact.WAITS:
            return self._wait(entry, hold)
        self.ledger.record([entry])
        self.guards.of(entry.slice.pool).record_successes(1)
        return Done(people=entry.people, rows=entry.rows)

    def _wait(self, entry: LedgerEntry, hold: SliceLease) -> Outcome:
        # Record before releasing, or the slice would be queued at once. After a crash in between, the claim expires.
        # Only the holder writes it, in its own cell: another worker may be waiting for another time, such as morning.
        hold.going()
        n = self._standings(entry.slice)[entry.slice].waited + 1
        while not all(self.ledger.record([replace(entry, n=n)])):
            n += 1
        self.claims.release(hold.claim, self.clock.now())
        return Again(reason=f"waits until {entry.at:%H:%M:%S}")

    def _ended(self, piece: Slice) -> bool:
        state = self._standings(piece).get(piece)
        return bool(state and state.ended and state.ended.fact in DONE_WITH)

    def _standings(self, piece: Slice) -> Mapping[Slice, SliceState]:
        return self.ledger.read([piece.burst])[piece.burst].standings

    def _failed(self, piece: Slice, hold: SliceLease, cause: Exception) -> Outcome:
        """Record a failure of the slice itself: retry at once, and dead-letter it at the last attempt (ATTEMPTS)."""
        now = self.clock.now()
        attempt = self._standings(piece)[piece].attempts + 1
        reason = f"{type(cause).__name__}: {cause}"
        self.ledger.record([LedgerEntry(slice=piece, fact=Fact.ATTEMPT, n=attempt, at=now, note=reason)])
        if attempt < ATTEMPTS:
            if not isinstance(cause, Poison):  # a corrupt record may be repaired: let the claim expire first
                self.claims.release(hold.claim, now)
            return Again(reason=reason)
        # Count before writing the letter. A slice that the limit rejects stays in the ledger until the pool is resumed.
        if not self.guards.of(piece.pool).admit_death(str(piece), reason):
            return Again(reason="the pool is stopped by its dead-letter limit")
        self._bury(piece, reason, now)
        return Dead(cause=reason)

    def _bury(self, piece: Slice, reason: str, now: datetime) -> None:
        # The letter comes first: a dead slice in the ledger without a letter could not be investigated.
        letter = DeadLetter(id=str(piece), stage=piece.pool, cause=reason, body=str(piece).encode(), at=now)
        self.dead_letters.put(letter)
        self.ledger.record([LedgerEntry(slice=piece, fact=Fact.DEAD, at=now, note=reason)])
        self.metrics.dead.labels(piece.pool).inc()
