"""The ledger in memory."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.delivery.ledger import BurstProgress, Claim, Fact, LedgerEntry, account
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice import Slice
from notifier.domain.ids import BurstKey

# Claims on slices, in memory.


class MemoryClaims:
    def __init__(self) -> None:
        self._claims: dict[BurstKey, dict[Slice, Claim]] = {}

    def claim(self, piece: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        claims = self._claims.setdefault(piece.burst, {})
        last = claims.get(piece)
        if last is not None and now < last.until:
            return None
        attempt = last.attempt + 1 if last else 1
        reached = last.reached if last else 0
        mine = Claim(slice=piece, attempt=attempt, owner=owner, claimed_at=now, until=until, reached=reached)
        claims[piece] = mine
        return mine

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        return self._until(claim, until)

    def release(self, claim: Claim, now: datetime) -> None:
        self._until(claim, now)

    def of(self, burst: BurstKey) -> Iterator[Claim]:
        """What the ledger reads of them."""
        return iter(self._claims.get(burst, {}).values())

    def _until(self, claim: Claim, until: datetime) -> Claim | None:
        claims = self._claims.get(claim.slice.burst, {})
        stored = claims.get(claim.slice)
        if stored is None or (stored.attempt, stored.owner) != (claim.attempt, claim.owner):
            return None
        claims[claim.slice] = replace(stored, until=until, reached=claim.reached)
        return claims[claim.slice]


class MemoryLedger:
    def __init__(self, claims: MemoryClaims) -> None:
        self._claims = claims
        self._plans: dict[BurstKey, Plan] = {}
        self._open: set[BurstKey] = set()
        self.asleep: dict[BurstKey, Sleeper] = {}
        """MemorySleepers' own."""
        self._cells: dict[BurstKey, dict[tuple[Slice, Fact, int], LedgerEntry]] = {}
        self._read: dict[BurstKey, tuple[object, BurstProgress]] = {}

    def plan(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            if plan.burst not in self._plans:
                self._plans[plan.burst] = plan
                self._open.add(plan.burst)

    def open(self, since: datetime | None = None) -> Sequence[BurstKey]:
        places = [(self._plans[burst].opened_at, burst) for burst in self._open]
        return [burst for _, burst in sorted(place for place in places if since is None or place[0] >= since)]

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        return {burst: self._account(burst) for burst in bursts if burst in self._plans}

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        return [self._record(entry) for entry in entries]

    def close(self, bursts: Collection[BurstKey]) -> None:
        self._open.difference_update(bursts)

    def reopen(self, burst: BurstKey) -> None:
        self._open.add(burst)

    def unsettled(self) -> Sequence[BurstKey]:
        """Open or asleep."""
        return [*self.open(), *sorted(self.asleep.keys() - self._open)]

    def planned(self) -> Sequence[BurstKey]:
        """Every burst that ever had a plan."""
        return sorted(self._plans)

    def _account(self, burst: BurstKey) -> BurstProgress:
        """The last one, unless something has been written since: cells are never written twice."""
        cells, claims = self._cells.get(burst, {}), [*self._claims.of(burst)]
        state = len(cells), claims
        if burst not in self._read or self._read[burst][0] != state:
            self._read[burst] = state, account(self._plans[burst], cells.values(), claims)
        return self._read[burst][1]

    def _record(self, entry: LedgerEntry) -> bool:
        cells = self._cells.setdefault(entry.slice.burst, {})
        return cells.setdefault((entry.slice, entry.fact, entry.n), entry) is entry


# The sleepers in memory.


class MemorySleepers:
    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def lay(self, sleepers: Sequence[Sleeper], now: datetime) -> None:
        asleep = self._ledger.asleep
        for one in sleepers:
            asleep[one.burst] = min(one, asleep.get(one.burst, one), key=lambda each: each.until)
        self._ledger.close([one.burst for one in sleepers])

    def wake(self, now: datetime, most: int) -> Sequence[BurstKey]:
        asleep = self._ledger.asleep
        due = sorted((one.until, key) for key, one in asleep.items() if one.until <= now)
        keys = [key for _, key in due[:most]]
        for key in keys:
            self._ledger.reopen(key)
            del asleep[key]
        return keys

    def count(self) -> int:
        return len(self._ledger.asleep)
