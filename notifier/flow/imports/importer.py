"""An import: rows are read and kept in sorted runs of numbers, and then what they leave to be done is done, by pieces.

Cut off anywhere it goes on where it was: what was read is known by the runs, what was written by the line's mark, and
whatever is done twice writes the same.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from notifier.domain.audience.follow_import import Keys
from notifier.ports.imports import Edges, Some

Advance = Callable[[int], object]
S = TypeVar("S", bound=Some)
S_contra = TypeVar("S_contra", bound=Some, contravariant=True)


class Matter(Protocol[S_contra]):
    """What an import is of. Either is done again when it was cut off, and does the same."""

    def read(self, rows: S_contra) -> Keys:
        """What of these is left to be written when everything is read, as numbers; what isn't is done."""
        ...

    def steps(self, keys: Keys) -> Iterable[Callable[[], None]]:
        """Which write some of what was left, that is sorted and of which no block is cut off."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Generic[S]):
    matter: Matter[S]
    edges: Edges
    patience: Callable[[Callable[[], None]], None] | None = None
    """Retries a step during an outage. Without it an outage ends the import."""

    def read(self, source: Iterable[S], advance: Advance = lambda _: None) -> None:
        """The source goes on behind what was read before."""
        for rows in source:
            self._attempt(partial(self._read, rows))
            advance(len(rows))

    def write(self, advance: Advance = lambda _: None) -> None:
        """Everything that was read is where it belongs when it returns, or the writer of its bitmaps is asked."""
        for keys, mark in self.edges.line():
            for step in self.matter.steps(keys):
                self._attempt(step)
            self.edges.take(mark)
            advance(len(keys))

    def _attempt(self, step: Callable[[], None]) -> None:
        if self.patience is None:
            step()
        else:
            self.patience(step)

    def _read(self, rows: S) -> None:
        # The run behind the effects: whoever dies in between reads these again.
        self.edges.add(self.matter.read(rows), rows.read)
