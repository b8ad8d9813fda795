"""What is left of somebody's words beside mentions: events that are held, and dead letters."""

from collections.abc import Collection, Iterator
from typing import Protocol

from notifier.domain.bursts.held_mention import Hold
from notifier.domain.ids import UserId
from notifier.ports.deadletters import DeadLetter


class Traces(Protocol):
    """Durable. Everything raises StoreUnavailable, and Full where it writes; whoever blanks again changes nothing."""

    def held(self, authors: Collection[UserId]) -> Iterator[Hold]:
        """The authors', decided or not, whose event has a text; read as they are asked for."""
        ...

    def blank(self, holds: Collection[Hold]) -> None:
        """Their events have no text any more, also where somebody puts them again. All else of them stays."""
        ...

    def letters(self) -> Iterator[DeadLetter]:
        """All that have a body, in no order; read as they are asked for."""
        ...

    def empty(self, letters: Collection[DeadLetter]) -> None:
        """They have no body any more, also where somebody puts them again. All else of them stays."""
        ...
