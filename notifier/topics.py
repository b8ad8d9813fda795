"""The log's streams: names, keys and numbers of partitions."""

from notifier.domain.delivery.slice import Pool
from notifier.domain.ids import Lane, Subject

MENTIONS = "mentions"
"""Events as they were accepted; key: the event's id."""

MENTIONS_CELEBRITY = "mentions.celebrity"
MENTIONS_STANDARD = "mentions.standard"
"""Mentions on their way to their subject; key: the subject, so that its order is the partition's."""

FOLLOWS = "follows"
"""Who follows an account, or wants less of it; key: the account, so that a subject has one writer. And who blocks whom;
key: the blocker, though rows alone are made of it, which any reader may write."""

USERS = "users"
"""What the platform says of an account itself; key: the account. One partition, for the bitmap of a shard's VIPs is of
many accounts, and has one writer."""

ACTIVITY = "activity"
"""Who was around elsewhere; key: the account. Bits are only ever set, so it may have any number of readers."""

DEVICES = "devices"
"""Which devices people have; key: the shard of who has it, or had it, so that a shard's bitmap has one writer."""

RETRACTIONS = "retractions"
"""What was taken back; key: the tweet, or the author of all that is meant. Its words bear any order."""

GROUPS = {
    MENTIONS: "router",
    MENTIONS_CELEBRITY: "coordinator",
    MENTIONS_STANDARD: "coordinator",
    FOLLOWS: "indexer",
    USERS: "registrar",
    DEVICES: "switchboard",
    ACTIVITY: "attendant",
    RETRACTIONS: "retractor",
}
"""Who reads each stream."""

LANES = (*GROUPS, *map(str, Pool))
"""What the dead-letter limit stops as a whole: the reading of one stream by its group, or one pool of slices."""

PARTITIONS = {
    MENTIONS: 4,
    MENTIONS_CELEBRITY: 4,
    MENTIONS_STANDARD: 4,
    FOLLOWS: 4,
    USERS: 1,
    DEVICES: 4,
    ACTIVITY: 4,
    RETRACTIONS: 4,
}

MENTIONS_PASS = (MENTIONS, MENTIONS_CELEBRITY, MENTIONS_STANDARD)
"""In the order in which an event of the tweet service passes them."""

LANE_STREAM = {Lane.CELEBRITY: MENTIONS_CELEBRITY, Lane.STANDARD: MENTIONS_STANDARD}


def lane_key(subject: Subject) -> str:
    return str(subject)
