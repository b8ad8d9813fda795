"""Names, keys and partition counts of the log's streams."""

from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.ids import Lane, Subject

MENTIONS = "mentions"
"""Accepted events that mention accounts. Key: the event id."""

MENTIONS_CELEBRITY = "mentions.celebrity"
MENTIONS_STANDARD = "mentions.standard"
"""Mentions, by lane. Key: the subject, so that a subject's mentions stay in order."""

FOLLOWS = "follows"
"""Follows, preferences and user blocks.

Key of follows and subject preferences: the followed account, so that each subject's bitmaps have a single writer. Key
of account preferences: the member's shard, for the same reason. Key of user blocks, which are in no bitmap: the
blocker.
"""

USERS = "users"
"""Account flags from the platform. Key: the account, or a shard after an import. The stream has one partition, because
the VIP bitmap of a shard covers many accounts and needs a single writer."""

ACTIVITY = "activity"
"""User activity outside the inbox. Key: the account. Bits are only ever set, so any number of consumers may write."""

DEVICES = "devices"
"""Device registrations and removals. Key: the shard of the device's current or former member, so that the bitmap of a
shard has a single writer."""

RETRACTIONS = "retractions"
"""Retractions, which may apply in any order. Key: the tweet, or for an erasure or protection the author."""

GROUPS = {
    MENTIONS: "router",
    MENTIONS_CELEBRITY: "coordinator",
    MENTIONS_STANDARD: "coordinator",
    FOLLOWS: "graph_indexer",
    USERS: "account_indexer",
    DEVICES: "device_indexer",
    ACTIVITY: "activity_indexer",
    RETRACTIONS: "retractor",
}
"""Consumer group of each stream."""

PROCESSING_LANES = (*GROUPS, *map(str, Pool))
"""Processing lanes: one for each stream with its consumer group, and one for each pool of slices."""

PARTITION_COUNTS = {
    MENTIONS: 4,
    MENTIONS_CELEBRITY: 4,
    MENTIONS_STANDARD: 4,
    FOLLOWS: 4,
    USERS: 1,
    DEVICES: 4,
    ACTIVITY: 4,
    RETRACTIONS: 4,
}
"""Number of partitions of each stream."""

MENTION_STREAMS = (MENTIONS, MENTIONS_CELEBRITY, MENTIONS_STANDARD)
"""Streams of an event and its mentions, in this order. Each mention is in the stream of one lane."""

LANE_STREAM = {Lane.CELEBRITY: MENTIONS_CELEBRITY, Lane.STANDARD: MENTIONS_STANDARD}
"""The stream of each lane of accounts."""


def lane_key(subject: Subject) -> str:
    """Return the key of a subject's mentions in the stream of its lane."""
    return str(subject)
