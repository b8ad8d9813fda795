"""An archive of a small world whose rows are read in one go: a question a block and burst would take minutes."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from notifier.domain.audience.snapshot import Seal
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.ids import BurstKey
from notifier.ports.ledger import Archive, StoredRow


@dataclass(slots=True, kw_only=True)
class Once:
    """Of one moment: what is stored later isn't in it."""

    archive: Archive
    found: dict[BurstKey, list[StoredRow]] = field(default_factory=dict)

    def bursts(self) -> Iterator[Burst]:
        return self.archive.bursts()

    def accounts(self) -> Iterator[BurstProgress]:
        return self.archive.accounts()

    def seals(self, burst: BurstKey) -> Iterator[Seal]:
        return self.archive.seals(burst)

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        self.found = self.found or self._read()
        if burst is not None:
            return iter(self.found.get(burst, ()))
        return (stored for rows in self.found.values() for stored in rows)

    def _read(self) -> dict[BurstKey, list[StoredRow]]:
        found: dict[BurstKey, list[StoredRow]] = defaultdict(list)
        for stored in self.archive.rows():
            found[stored.row.burst].append(stored)
        return dict(found)
