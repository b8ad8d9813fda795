"""The dead letters: what could never be processed, with its cause, kept for a person to look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    id: str
    """The place it came from, so that a second death of the same record is the same letter."""
    stage: str
    cause: str
    body: bytes
    at: datetime


class DeadLetters(Protocol):
    """Durable. Raises StoreUnavailable or Full."""

    def put(self, letter: DeadLetter) -> None:
        """Once by id."""
        ...

    def list(self, limit: int) -> Sequence[DeadLetter]:
        """Newest first."""
        ...
