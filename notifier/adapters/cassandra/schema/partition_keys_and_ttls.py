"""Computes partition keys and TTLs.

The keys of existing rows must not change.
"""

from datetime import UTC, datetime, timedelta
from zlib import crc32

from notifier.domain.bursts.burst import RETENTION
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.ids import Subject, UserId

BURSTS_PER_RUN = 1_024
"""Bursts of a subject in one partition. Tables call the number of the partition `run`."""
BUCKETS = 16
"""Partitions over which rows are spread, such as the mentions of a burst."""
HOUR_MS = 3_600_000
SHARDS_PER_GROUP = 8
"""Shards whose member sets share a partition. Their audience snapshots share a partition, too.

With more shards a slice would need fewer queries, but a response with ten dense sets for each shard already has 1.3 MB.
"""


def run_of(seq: int) -> int:
    return seq // BURSTS_PER_RUN


def hour_of(ms: int) -> int:
    return ms // HOUR_MS


def shard_group_of(shard: int) -> int:
    return shard // SHARDS_PER_GROUP


def bucket_of_subject(subject: Subject) -> int:
    return crc32(str(subject).encode()) % BUCKETS


def bucket_of_event(event: EventId) -> int:
    return bucket_of_event_id(event.id)


def bucket_of_event_id(id: str) -> int:
    return crc32(id.encode()) % BUCKETS


def bucket_of_user(user: UserId) -> int:
    return crc32(user.encode()) % BUCKETS


# Burst, mention and inbox rows get the rest of their lifetime as TTL, however late they are written.

ROW_LIFETIME = RETENTION + timedelta(days=1)
"""Lifetime of rows that must not expire before their burst."""
ERASURE_WRITE_TIMESTAMP = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
"""Write timestamp of erasures, in microseconds: the year 2200. All other writes of the text have lower timestamps."""


def seconds_until(end: datetime, now: datetime) -> int:
    """Return the TTL in seconds. Don't write a row with a TTL below 1: with 0 it would never expire."""
    return (end - now) // timedelta(seconds=1)
