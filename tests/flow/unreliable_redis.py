"""A Redis with late, doubled or lost invalidations, on memory ports of a stage."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Subject
from notifier.ports.inbox_cache_freshness import Scope
from notifier.ports.pull_index import SubjectLists
from tests.support.fakes.inbox_cache_freshness import MemoryVersions
from tests.support.fakes.pull_index import MemoryPullIndex
from tests.support.simulator.durable_state import DurableState


class Ending(Enum):
    """Fate of a change's invalidations in Redis."""

    SENT = auto()
    TWICE = auto()
    LATE = auto()
    """`end_change` arrives when `deliver` is called."""
    LOST = auto()
    """The writer crashed before `end_change`."""
    REFUSED = auto()
    """Redis became unavailable before `end_change`."""
    UNSENT = auto()
    """Redis was unavailable at `start_change`."""


@dataclass(slots=True, kw_only=True)
class UnreliableVersions(MemoryVersions):
    ending: Ending = Ending.SENT
    late: list[tuple[Collection[Scope], str]] = field(default_factory=list)

    def start_change(self, scopes: Collection[Scope], change: str) -> None:
        if self.ending is Ending.UNSENT:
            raise CacheUnavailable("It is away for a moment.")
        MemoryVersions.start_change(self, scopes, change)

    def end_change(self, scopes: Collection[Scope], change: str) -> None:
        match self.ending:
            case Ending.SENT | Ending.UNSENT:
                MemoryVersions.end_change(self, scopes, change)
            case Ending.TWICE:
                MemoryVersions.end_change(self, scopes, change)
                MemoryVersions.end_change(self, scopes, change)
            case Ending.LATE:
                self.late.append((scopes, change))
            case Ending.LOST:
                pass
            case Ending.REFUSED:
                raise CacheUnavailable("It is away for a moment.")

    def deliver(self) -> None:
        """Apply every late `end_change`."""
        for scopes, change in self.late:
            MemoryVersions.end_change(self, scopes, change)
        self.late.clear()

    @contextmanager
    def changes_end(self, ending: Ending) -> Iterator[None]:
        self.ending = ending
        try:
            yield
        finally:
            self.ending = Ending.SENT

    def fail_over(self, replica: "UnreliableVersions") -> None:
        """Fail over to a replica that lacks the latest versions."""
        self.entries = replica.copied().entries
        self.server_state += 1

    def copied(self) -> "UnreliableVersions":
        entries = {scope: replace(entry, changes={**entry.changes}) for scope, entry in self.entries.items()}
        return replace(self, entries=entries)


@dataclass(slots=True)
class UnreliablePullIndex(MemoryPullIndex):
    away: bool = False

    def announce(self, bursts: Sequence[Burst]) -> None:
        self._require()
        MemoryPullIndex.announce(self, bursts)

    def generation(self) -> str | None:
        self._require()
        return MemoryPullIndex.generation(self)

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        self._require()
        return await MemoryPullIndex.subject_lists(self, subjects)

    def _require(self) -> None:
        if self.away:
            raise CacheUnavailable("It is away.")


def unreliable_state() -> tuple[DurableState, UnreliableVersions, UnreliablePullIndex]:
    state = DurableState()
    versions = UnreliableVersions(clock=state.clock, bus=state.bus)
    pull = UnreliablePullIndex(state.clock)
    state.versions, state.pull = versions, pull
    return state, versions, pull
