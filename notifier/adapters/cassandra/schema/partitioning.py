"""Partition keys of the tables. Existing keyspaces depend on them, so they must not change."""

from datetime import UTC, datetime, timedelta
from zlib import crc32

from notifier.domain.bursts.burst import RETENTION
from notifier.domain.bursts.mention import EventId
from notifier.domain.ids import Subject, UserId

BURSTS_PER_RUN = 1_024
"""Bursts of a subject per partition of `bursts`."""
BUCKETS = 16
"""Number of partitions that share each hour's bursts, each burst's mentions, all held mentions, and all verdicts."""
HOUR_MS = 3_600_000
"""One hour in milliseconds."""
SHARD_GROUP = 8
"""Shards whose member sets, and whose audience snapshots, share a partition.

A slice reads them with few queries, and no response exceeds 640 KB (five dense sets).
"""


def run_of(seq: int) -> int:
    return seq // BURSTS_PER_RUN


def hour_of(ms: int) -> int:
    return ms // HOUR_MS


def shard_group_of(shard: int) -> int:
    return shard // SHARD_GROUP


def bucket_of_subject(subject: Subject) -> int:
    return crc32(str(subject).encode()) % BUCKETS


def bucket_of_event(event: EventId) -> int:
    return bucket_of_event_id(event.id)


def bucket_of_event_id(id: str) -> int:
    return crc32(id.encode()) % BUCKETS


def bucket_of_user(user: UserId) -> int:
    return crc32(user.encode()) % BUCKETS


# TTLs: each row is written with its remaining lifetime, so that all rows of a burst expire together.

ROW_LIFETIME = RETENTION + timedelta(days=1)
"""Lifetime of rows that must not expire before their burst."""
MAX_WRITE_TIMESTAMP = (datetime(2200, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
"""Write timestamp above all others: nothing overwrites a blanked row."""


def seconds_until(end: datetime, now: datetime) -> int:
    """Return the TTL in seconds. Do not write rows with a TTL below 1: Cassandra takes 0 for "never expires"."""
    return (end - now) // timedelta(seconds=1)
