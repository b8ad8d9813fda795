"""The change feed of bursts, in memory, and the lapses of viewers that go by it."""

from collections.abc import Iterable
from dataclasses import dataclass

from notifier.domain.ids import BurstKey
from notifier.ports.inbox_versions import MOST, Changes, Position
from notifier.testing.memory.bursts import MemoryBursts


@dataclass(frozen=True, slots=True)
class MemoryPosition(Position):
    count: int
    """Changes until then."""


class MemoryBurstChanges:
    """Its coroutines never suspend, so that a simulator can step them."""

    def __init__(self, bursts: MemoryBursts) -> None:
        self._bursts = bursts

    async def begin(self) -> Position:
        return MemoryPosition(len(self._bursts.changes))

    async def after(self, position: Position) -> Changes | None:
        if not isinstance(position, MemoryPosition):
            raise TypeError(f"not a position in memory: {position!r}")
        end = len(self._bursts.changes)
        entries = self._bursts.changes[position.count : end]
        changed = _by_last(key for key in entries if key is not None)
        if len(changed) > MOST:
            return None
        found = self._bursts.read(changed)
        return Changes(
            bursts=[found[key] for key in changed], viewers_lapsed=None in entries, position=MemoryPosition(end)
        )

    async def lapse(self) -> None:
        self._bursts.changes.append(None)


class MemoryViewerLapses:
    def __init__(self, bursts: MemoryBursts) -> None:
        self._bursts = bursts

    def record(self) -> None:
        self._bursts.changes.append(None)


def _by_last(keys: Iterable[BurstKey]) -> list[BurstKey]:
    """Each once, in the order of their last entries."""
    last = {key: n for n, key in enumerate(keys)}
    return sorted(last, key=last.__getitem__)
