"""Calls of one Redis adapter: writes, reads, and how garbage is repaired."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Read = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterCalls:
    writes: Mapping[str, Callable[[], object]]
    """Each write replaces garbage in its keys with correct data, and changes nothing that is correct."""
    reads: Mapping[str, Read]
    """Each read is repeatable; on an empty server it returns what an empty cache returns."""
    repair: Callable[[], object]
    """Repairs everything, as the running system eventually does."""

    def results(self) -> dict[str, object]:
        return {name: read() for name, read in self.reads.items()}


def self_repairing(writes: Mapping[str, Callable[[], object]], reads: Mapping[str, Read]) -> AdapterCalls:
    """Build calls whose writes repair all garbage."""

    def repair() -> None:
        for write in writes.values():
            write()

    return AdapterCalls(writes=writes, reads=reads, repair=repair)
