"""Work on one slice: claim it, do it, write down what became of it. The step's own doing is delivery's or push's."""

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
"""A late copy of such a slice's task finds nothing to do."""


class LostClaim(Exception):
    """Another worker holds the slice by now."""


class HandBack(Exception):
    """The slice takes too long, or the worker has to end; somebody goes on where it stopped."""


@dataclass(slots=True)
class SliceLease:
    """A claim that renews itself while the work goes on."""

    claim: Claim
    claims: Claims
    clock: Clock
    alive: Callable[[], None] | None = None
    """Called whenever the work has got a step further."""
    stopping: Callable[[], bool] | None = None
    """Whether the process was told to end: then somebody else goes on, from where this work has come to."""

    def reach(self, shard: int) -> None:
        """The shards below this one are done."""
        self.claim = replace(self.claim, reached=shard)

    def keep(self) -> None:
        """To be called between effects. Raises LostClaim or HandBack; what was written by then may be written again."""
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
        """To be called while an effect goes on, which is always ended: handed back in its middle, one that is always
        too slow would begin anew for ever. Raises LostClaim."""
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
        """Does all of the slice; returns the entry that ends it."""
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
            # Not claimed and not counted: the dispatcher queues it again once the pool is resumed.
            return Again(reason="the pool is stopped by its dead-letter limit")
        now = self.clock.now()
        claim = self.claims.claim(piece, self.owner, now, now + piece.terms.claim)
        if claim is None:
            return Again(reason="somebody else holds it")
        hold = SliceLease(claim, self.claims, self.clock, self.alive, self.stopping)
        try:
            # The first to have it needn't ask: a slice has ended only after a claim.
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
            # An outage uses up no attempt: the claim runs out, and the dispatcher queues the slice again.
            self.metrics.outages.labels("store").inc()
            return Again(reason=str(outage))
        except Exception as cause:
            return self._failed(piece, hold, cause)

    def _end(self, entry: LedgerEntry, hold: SliceLease) -> Outcome:
        # The rows stand before the ledger says so; a crash in between writes the same rows again.
        if entry.fact is Fact.WAITS:
            return self._wait(entry, hold)
        self.ledger.record([entry])
        self.guards.of(entry.slice.pool).record_successes(1)
        return Done(people=entry.people, rows=entry.rows)

    def _wait(self, entry: LedgerEntry, hold: SliceLease) -> Outcome:
        # Noted before the slice is let go, or it would be queued at once; who dies in between holds it for a term more.
        # By its holder alone, and in a cell of his own: what somebody else waits for may be the morning.
        hold.going()
        n = self._standings(entry.slice)[entry.slice].waited + 1
        while not all(self.ledger.record([replace(entry, n=n)])):
            n += 1
        self.claims.release(hold.claim, self.clock.now())
        return Again(reason=f"waits until {entry.at:%H:%M:%S}")

    def _ended(self, piece: Slice) -> bool:
        standing = self._standings(piece).get(piece)
        return bool(standing and standing.ended and standing.ended.fact in DONE_WITH)

    def _standings(self, piece: Slice) -> Mapping[Slice, SliceState]:
        return self.ledger.read([piece.burst])[piece.burst].standings

    def _failed(self, piece: Slice, hold: SliceLease, cause: Exception) -> Outcome:
        """A failure of the slice's own: it is tried again at once, and dies of the fifth."""
        now = self.clock.now()
        attempt = self._standings(piece)[piece].attempts + 1
        reason = f"{type(cause).__name__}: {cause}"
        self.ledger.record([LedgerEntry(slice=piece, fact=Fact.ATTEMPT, n=attempt, at=now, note=reason)])
        if attempt < ATTEMPTS:
            if not isinstance(cause, Poison):  # what can't be read may be made again: then the claim runs out first
                self.claims.release(hold.claim, now)
            return Again(reason=reason)
        # Counted before it is buried. A slice that may not die stays in the ledger, and is tried again after a resume.
        if not self.guards.of(piece.pool).admit_death(str(piece), reason):
            return Again(reason="the pool is stopped by its dead-letter limit")
        self._bury(piece, reason, now)
        return Dead(cause=reason)

    def _bury(self, piece: Slice, reason: str, now: datetime) -> None:
        # The letter first: a death in the ledger without one could not be looked into.
        letter = DeadLetter(id=str(piece), stage=piece.pool, cause=reason, body=str(piece).encode(), at=now)
        self.dead_letters.put(letter)
        self.ledger.record([LedgerEntry(slice=piece, fact=Fact.DEAD, at=now, note=reason)])
        self.metrics.dead.labels(piece.pool).inc()
