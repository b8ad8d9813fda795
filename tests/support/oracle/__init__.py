"""The oracle: what people say, and what they must see; it shares no code with what it checks."""

from tests.support.oracle.observations import Division, Key, Marked, Seen
from tests.support.oracle.person import BEFORE_ALL, FOR_EVER, Arranged, Asked, Parted, Person, Phoned, Saying, Told
from tests.support.oracle.promises import DORMANT, OUTSIDE, SHARD, SUPPRESSED, Oracle
from tests.support.oracle.retractions import State, Tweet, Withdrawn

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
