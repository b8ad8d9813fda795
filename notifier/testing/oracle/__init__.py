"""The oracle: what people say, and what they must see; it shares no code with what it checks."""

from notifier.testing.oracle.observed import Division, Key, Marked, Seen
from notifier.testing.oracle.person import BEFORE_ALL, FOR_EVER, Arranged, Asked, Parted, Person, Phoned, Saying, Told
from notifier.testing.oracle.promises import (
    DORMANT,
    OUTSIDE,
    SHARD,
    SUPPRESSED,
    Oracle,
)
from notifier.testing.oracle.withdrawn import State, Tweet, Withdrawn

__all__ = [
    "BEFORE_ALL",
    "DORMANT",
    "FOR_EVER",
    "OUTSIDE",
    "SHARD",
    "SUPPRESSED",
    "Arranged",
    "Asked",
    "Division",
    "Key",
    "Marked",
    "Oracle",
    "Parted",
    "Person",
    "Phoned",
    "Saying",
    "Seen",
    "State",
    "Told",
    "Tweet",
    "Withdrawn",
]
