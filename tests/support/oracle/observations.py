"""What the oracle takes as observed, and what it says of a shard."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

Key = tuple[str, str, int]
"""Kind, owner and number of a burst; of a digest the person and the date, as in 20260105."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A burst as it was observed: its number, its opening, and the tweets in it, in order."""

    key: Key
    opened_at: datetime
    tweets: tuple[str, ...]
    spared: bool = False
    """Left to the pull path from the start: nobody is written to."""
    standard: bool = False
    """It has the standard lane: rows for everybody."""
    secret: bool = False
    """It opened for its author's followers alone."""
    left_to: str = ""
    """Whose followers have it since nothing of it is public any more."""
    opened: int = 0
    """Where its opening stands in the order of what happened to its subject."""
    gone: int | None = None
    """Where in that order it came to be for nobody, or for its author's followers alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """What a person did with the list."""

    seen: Collection[tuple[datetime, Collection[Key]]] = ()
    """Tokens handed in: up to when, and which newer ones."""
    marks: Mapping[Key, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """One shard's people of a burst."""

    tiers: Mapping[str, frozenset[int]]
    dormant: int
    suppressed: int
    push: frozenset[int]
