"""Ports that fail: out of reach, or broken for a reason of their own."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from notifier.domain.bursts.sequencer import Head
from notifier.domain.errors import NotifierError, Poison, StoreUnavailable
from notifier.domain.ids import Subject
from notifier.ports.bursts import Heads


@dataclass(frozen=True)
class Refusing:
    """Every call raises; the port behind it is never reached."""

    port: object
    error: type[NotifierError]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        getattr(self.port, name)

        def refuse(*_: object, **__: object) -> None:
            raise self.error(name)

        return refuse


@dataclass(frozen=True)
class Unplanned:
    """A ledger that is out of reach when it is given a plan: the head before it stands, unpublished."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def plan(self, plans: Sequence[object]) -> None:
        if plans:
            raise StoreUnavailable()


@dataclass(frozen=True)
class Unrecorded:
    """A ledger that is out of reach when work is recorded: the worker dies behind its rows."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def record(self, entries: Sequence[object]) -> None:
        if entries:
            raise StoreUnavailable()


@dataclass(frozen=True)
class Unswapped:
    """Heads that can be read, and go out of reach when one is to change."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def swap(self, _: object) -> None:
        raise StoreUnavailable()


@dataclass(frozen=True)
class Unreadable:
    """Heads of which one isn't as it was written."""

    port: Heads
    subject: Subject

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        if self.subject in subjects:
            raise Poison("A bit is another.")
        return self.port.load(subjects)


@dataclass(frozen=True)
class Unwritten:
    """Bursts that can be read, and go out of reach when one is to change."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def write(self, *_: object) -> None:
        raise StoreUnavailable()


@dataclass(frozen=True)
class Broken:
    """Every write fails in a way that no second try mends."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def write(self, *_: object) -> None:
        raise ValueError("a row of no shape")
