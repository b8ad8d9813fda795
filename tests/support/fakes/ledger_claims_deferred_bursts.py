"""In-memory ledger, claims and deferred bursts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from notifier.domain.delivery.dispatch_backlog import DeferredBurst
from notifier.domain.delivery.ledger import BurstProgress, Claim, Fact, LedgerEntry, burst_progress
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice_and_pool import Slice
from notifier.domain.ids import BurstKey

# Claims on slices.


class MemoryClaims:
    def __init__(self) -> None:
        self._claims: dict[BurstKey, dict[Slice, Claim]] = {}

    def claim(self, slice_: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        claims = self._claims.setdefault(slice_.burst, {})
        previous = claims.get(slice_)
        if previous is not None and now < previous.until:
            return None
        number = previous.number + 1 if previous else 1
        checkpoint = previous.checkpoint if previous else 0
        claim_ = Claim(slice=slice_, number=number, owner=owner, claimed_at=now, until=until, checkpoint=checkpoint)
        claims[slice_] = claim_
        return claim_

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        return self._until(claim, until)

    def release(self, claim: Claim, now: datetime) -> None:
        self._until(claim, now)

    def of(self, burst: BurstKey) -> Iterator[Claim]:
        """Return the claims of a burst for the ledger."""
        return iter(self._claims.get(burst, {}).values())

    def _until(self, claim: Claim, until: datetime) -> Claim | None:
        claims = self._claims.get(claim.slice.burst, {})
        stored = claims.get(claim.slice)
        if stored is None or (stored.number, stored.owner) != (claim.number, claim.owner):
            return None
        claims[claim.slice] = replace(stored, until=until, checkpoint=claim.checkpoint)
        return claims[claim.slice]


class MemoryLedger:
    def __init__(self, claims: MemoryClaims) -> None:
        self._claims = claims
        self._plans: dict[BurstKey, Plan] = {}
        self._open: set[BurstKey] = set()
        self.deferred_by_burst: dict[BurstKey, DeferredBurst] = {}
        """Written by MemoryDeferredBursts."""
        self._entries: dict[BurstKey, dict[tuple[Slice, Fact, int], LedgerEntry]] = {}
        self._read: dict[BurstKey, tuple[object, BurstProgress]] = {}

    def store_plans(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            if plan.burst not in self._plans:
                self._plans[plan.burst] = plan
                self._open.add(plan.burst)

    def unfinished_bursts(self, since: datetime | None = None) -> Sequence[BurstKey]:
        places = [(self._plans[burst].opened_at, burst) for burst in self._open]
        return [burst for _, burst in sorted(place for place in places if since is None or place[0] >= since)]

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        return {burst: self._progress(burst) for burst in bursts if burst in self._plans}

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        return [self._record(entry) for entry in entries]

    def unlist(self, bursts: Collection[BurstKey]) -> None:
        self._open.difference_update(bursts)

    def relist(self, burst: BurstKey) -> None:
        self._open.add(burst)

    def unfinished_or_deferred(self) -> Sequence[BurstKey]:
        """Return open and deferred bursts."""
        return [*self.unfinished_bursts(), *sorted(self.deferred_by_burst.keys() - self._open)]

    def planned(self) -> Sequence[BurstKey]:
        """Return every burst that ever had a plan."""
        return sorted(self._plans)

    def _progress(self, burst: BurstKey) -> BurstProgress:
        """Return the cached progress unless entries or claims have changed; entries are never overwritten."""
        entries, claims = self._entries.get(burst, {}), [*self._claims.of(burst)]
        state = len(entries), claims
        if burst not in self._read or self._read[burst][0] != state:
            self._read[burst] = state, burst_progress(self._plans[burst], entries.values(), claims)
        return self._read[burst][1]

    def _record(self, entry: LedgerEntry) -> bool:
        entries = self._entries.setdefault(entry.slice.burst, {})
        return entries.setdefault((entry.slice, entry.fact, entry.number), entry) is entry


# Deferred bursts.


class MemoryDeferredBursts:
    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def defer(self, to_defer: Sequence[DeferredBurst], now: datetime) -> None:
        deferred_by_burst = self._ledger.deferred_by_burst
        for deferred in to_defer:
            deferred_by_burst[deferred.burst] = min(
                deferred, deferred_by_burst.get(deferred.burst, deferred), key=lambda candidate: candidate.until
            )
        self._ledger.unlist([deferred.burst for deferred in to_defer])

    def wake_due(self, now: datetime, limit: int) -> Sequence[BurstKey]:
        deferred_by_burst = self._ledger.deferred_by_burst
        due = sorted((deferred.until, key) for key, deferred in deferred_by_burst.items() if deferred.until <= now)
        keys = [key for _, key in due[:limit]]
        for key in keys:
            self._ledger.relist(key)
            del deferred_by_burst[key]
        return keys

    def count(self) -> int:
        return len(self._ledger.deferred_by_burst)
