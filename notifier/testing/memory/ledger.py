"""The ledger in memory."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.delivery.ledger import Account, Entry, Fact, account
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice import Slice
from notifier.domain.ids import BurstKey
from notifier.testing.memory.claims import MemoryClaims


class MemoryLedger:
    def __init__(self, claims: MemoryClaims) -> None:
        self._claims = claims
        self._plans: dict[BurstKey, Plan] = {}
        self._open: set[BurstKey] = set()
        self.asleep: dict[BurstKey, Sleeper] = {}
        """MemorySleepers' own."""
        self._cells: dict[BurstKey, dict[tuple[Slice, Fact, int], Entry]] = {}
        self._read: dict[BurstKey, tuple[object, Account]] = {}

    def plan(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            if plan.burst not in self._plans:
                self._plans[plan.burst] = plan
                self._open.add(plan.burst)

    def open(self, since: datetime | None = None) -> Sequence[BurstKey]:
        places = [(self._plans[burst].opened_at, burst) for burst in self._open]
        return [burst for _, burst in sorted(place for place in places if since is None or place[0] >= since)]

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, Account]:
        return {burst: self._account(burst) for burst in bursts if burst in self._plans}

    def record(self, entries: Sequence[Entry]) -> Sequence[bool]:
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

    def _account(self, burst: BurstKey) -> Account:
        """The last one, unless something has been written since: cells are never written twice."""
        cells, claims = self._cells.get(burst, {}), [*self._claims.of(burst)]
        state = len(cells), claims
        if burst not in self._read or self._read[burst][0] != state:
            self._read[burst] = state, account(self._plans[burst], cells.values(), claims)
        return self._read[burst][1]

    def _record(self, entry: Entry) -> bool:
        cells = self._cells.setdefault(entry.slice.burst, {})
        return cells.setdefault((entry.slice, entry.fact, entry.n), entry) is entry
