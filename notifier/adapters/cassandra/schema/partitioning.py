"""Where the partitions of tables end: by run, by hour, by part and by neighbours. Kept keyspaces depend on it."""

from datetime import UTC, datetime, timedelta
from zlib import crc32

from notifier.domain.bursts.burst import RETENTION
from notifier.domain.bursts.mention import EventId
from notifier.domain.ids import Subject, UserId

RUN = 1_024
"""Bursts of a subject in one partition of `bursts`."""
PARTS = 16
"""Of an hour's bursts, of a burst's mentions, of what is held, and of what is said of mentioners."""
HOUR = 3_600_000
"""Milliseconds."""
NEIGHBOURS = 8
"""Shards whose sets, and whose seals, share a partition: a slice reads them by few questions, and no answer is larger
than 640 KB, of five sets that are all dense."""


def run_of(seq: int) -> int:
    return seq // RUN


def hour_of(ms: int) -> int:
    return ms // HOUR


def neighbours_of(shard: int) -> int:
    return shard // NEIGHBOURS


def part_of_subject(subject: Subject) -> int:
    return crc32(str(subject).encode()) % PARTS


def part_of_event(event: EventId) -> int:
    return part_of_event_id(event.id)


def part_of_event_id(id: str) -> int:
    return crc32(id.encode()) % PARTS


def part_of_user(user: UserId) -> int:
    return crc32(user.encode()) % PARTS


# How long rows live: each is written with what is left of its time, so that all that hangs on a burst ends with it.

KEPT = RETENTION + timedelta(days=1)
"""Of what must not end before its burst does."""
FINAL = (datetime(2200, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
"""A write timestamp after all others: what is blanked stays so."""


def seconds_until(end: datetime, now: datetime) -> int:
    """What a TTL is bound to; below 1 there is nothing to write, and Cassandra would take a 0 for `for ever`."""
    return (end - now) // timedelta(seconds=1)
