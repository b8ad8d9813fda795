"""Epochs: numbers that only rise, one for each time that somebody begins to be the one who writes something."""

from typing import Protocol


class Epochs(Protocol):
    def begin(self, name: str) -> int:
        """A higher one than anybody was given for this name. Durable.

        Raises StoreUnavailable; then one may be left out.
        """
        ...
