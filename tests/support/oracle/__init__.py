"""Independent model of what users must see; shares no code with the product."""

from tests.support.oracle.expected_views import DORMANT, OUTSIDE, SHARD, SUPPRESSED, Oracle
from tests.support.oracle.observations import InboxMarks, Key, ObservedBurst, ShardTiers
from tests.support.oracle.retractions import RetractionUpdate, State, Tweet
from tests.support.oracle.user_state import (
    BEFORE_ALL,
    FOR_EVER,
    AccountUpdate,
    BlockUpdate,
    DeviceUpdate,
    FollowUpdate,
    Person,
    PreferenceUpdate,
    Update,
)

__all__ = [
    "BEFORE_ALL",
    "DORMANT",
    "FOR_EVER",
    "OUTSIDE",
    "SHARD",
    "SUPPRESSED",
    "AccountUpdate",
    "BlockUpdate",
    "DeviceUpdate",
    "FollowUpdate",
    "InboxMarks",
    "Key",
    "ObservedBurst",
    "Oracle",
    "Person",
    "PreferenceUpdate",
    "RetractionUpdate",
    "ShardTiers",
    "State",
    "Tweet",
    "Update",
]
