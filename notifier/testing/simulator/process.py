"""Processes and their threads, each thread a greenlet that gives way at every port call."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from greenlet import greenlet

from notifier.testing.simulator.script import How


class Ended(BaseException):
    """The process is gone. Nothing in the system catches this."""


@dataclass(slots=True, eq=False)
class Thread:
    name: str
    process: "Process"
    greenlet: greenlet
    wakes_at: datetime
    at: str = "start"
    """The call it stands before or behind."""
    fails: How | None = None
    """What becomes of its next call."""


@dataclass(slots=True, eq=False)
class Process:
    """`starts` makes its threads, by name, with nothing in memory but what it reads from outside."""

    name: str
    starts: Callable[["Process", int], dict[str, Callable[[], None]]]
    lives: int = 0
    threads: list[Thread] = field(default_factory=list)
    doomed: bool = False
    back_at: datetime | None = None

    @property
    def dead(self) -> bool:
        return not self.threads
