"""Observed bursts and marks as input of the oracle, and its result for a shard."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

Key = tuple[str, str, int]
"""Kind, owner and number of a burst; for a digest the user and the date as a number (20260105)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBurst:
    """A burst as observed: its number, its opening time and its tweets, in order."""

    key: Key
    opened_at: datetime
    tweets: tuple[str, ...]
    pull_only: bool = False
    """On the pull path from the start: no inbox row is written."""
    standard: bool = False
    """In the standard lane: every follower gets a row."""
    opened_restricted: bool = False
    """Opened for the followers of its author alone."""
    left_to: str = ""
    """Author whose followers still see it after nothing in it is public any more."""
    opened_version: int = 0
    """Version of the subject's head at which it opened."""
    retracted_version: int | None = None
    """Version of the head at which it stopped being public; None while it is public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxMarks:
    """Marks and seen tokens of one user."""

    seen: Collection[tuple[datetime, Collection[Key]]] = ()
    """Submitted tokens: the time that each covers, and the newer bursts it names."""
    marks: Mapping[Key, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTiers:
    """Recipients of a burst in one shard, by tier."""

    tiers: Mapping[str, frozenset[int]]
    dormant: int
    suppressed: int
    push: frozenset[int]
