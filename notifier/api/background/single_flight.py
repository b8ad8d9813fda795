"""Turns: of the questions that cost much, one at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock

from notifier.domain.errors import Unavailable

PATIENCE = timedelta(milliseconds=50)
"""A log that isn't behind is looked through in a few milliseconds: nobody need be refused for that. Who finds a longer
look under way would hold a thread that the senders of events need."""


@dataclass(frozen=True, slots=True)
class Turns:
    taken: str
    """What whoever comes meanwhile is told."""
    lock: Lock = field(default_factory=Lock)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Raises Unavailable when somebody else has the turn for longer than one waits."""
        if not self.lock.acquire(timeout=PATIENCE.total_seconds()):
            raise Unavailable(self.taken)
        try:
            yield
        finally:
            self.lock.release()
