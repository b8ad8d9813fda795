"""Time and chance as dependencies, so that a simulator can own them."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Aware UTC, in whole milliseconds."""
        ...


class Nonces(Protocol):
    def new(self) -> str:
        """A name that nobody else will ever make."""
        ...
