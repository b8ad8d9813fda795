"""Ports that fail because they are unavailable or broken."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from notifier.domain.bursts.sequencer import Head
from notifier.domain.errors import NotifierError, Poison, StoreUnavailable
from notifier.domain.ids import Subject
from notifier.ports.bursts import Heads


@dataclass(frozen=True)
class FailingPort:
    """Every call raises; the wrapped port is never reached."""

    port: object
    error: type[NotifierError]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        getattr(self.port, name)

        def refuse(*_: object, **__: object) -> None:
            raise self.error(name)

        return refuse


@dataclass(frozen=True)
class FailingPlans:
    """A ledger that fails when a plan is written. The head, written earlier, stays unpublished."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def store_plans(self, plans: Sequence[object]) -> None:
        if plans:
            raise StoreUnavailable()


@dataclass(frozen=True)
class FailingRecords:
    """A ledger that fails when entries are recorded."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def record(self, entries: Sequence[object]) -> None:
        if entries:
            raise StoreUnavailable()


@dataclass(frozen=True)
class FailingHeads:
    """Heads that can be read but not written."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def compare_and_set(self, _: object) -> None:
        raise StoreUnavailable()


@dataclass(frozen=True)
class CorruptHead:
    """Heads with one corrupt entry."""

    port: Heads
    subject: Subject

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        if self.subject in subjects:
            raise Poison("A bit has flipped.")
        return self.port.load(subjects)


@dataclass(frozen=True)
class FailingBursts:
    """Bursts that can be read but not written."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def write(self, *_: object) -> None:
        raise StoreUnavailable()


@dataclass(frozen=True)
class BrokenWrites:
    """Every write fails, and a retry does not help."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def write(self, *_: object) -> None:
        raise ValueError("malformed row")
