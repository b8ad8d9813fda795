"""Stores the send log, and reads push suppression, in core.db.

A batch is recorded before it is sent. Its failures are recorded afterwards.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.files import statement
from notifier.adapters.sqlite.stores.user_preferences import told_in
from notifier.codec.preferences import spared
from notifier.codec.push import pack_intent, pack_outcome, spares, unpack_window
from notifier.codec.storage import to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_MEMBERS
from notifier.domain.audience.follows import LEFT
from notifier.domain.audience.snapshot import KEPT_FOR
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Member, Platform, Subject
from notifier.domain.push.send_log import Sending, Window
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.ports.coordination import Clock
from notifier.ports.push import Spare

KEPT = KEPT_FOR + timedelta(days=1)
"""Life of a batch: a day longer than its burst can be delivered."""
SWEPT = 2
"""Expired batches deleted per batch written: more than expire meanwhile."""

_KEY = "subject = ? AND seq = ? AND shard = ? AND platform = ? AND tier = ? AND n = ?"
_INTEND = """
    INSERT OR IGNORE INTO sendings (subject, seq, shard, platform, tier, n, at, intent) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_CLOSE = f"UPDATE sendings SET outcome = ? WHERE {_KEY}"
_READ = """
    SELECT shard, tier, n, intent, outcome FROM sendings
    WHERE subject = ? AND seq = ? AND shard IN (SELECT value FROM json_each(?)) AND platform = ?
    ORDER BY shard, tier, n
"""
_SWEEP = """
    DELETE FROM sendings WHERE (subject, seq, shard, platform, tier, n) IN (
        SELECT subject, seq, shard, platform, tier, n FROM sendings WHERE at <= ? LIMIT ?
    )
"""

Key = tuple[str, int, int, str, str, int]


class SqliteSent:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def read(self, burst: BurstKey, platform: Platform, shards: Collection[int]) -> Mapping[Sending, Sequence[Window]]:
        wanted = str(burst.subject), burst.seq, json.dumps(list(shards)), str(platform)
        with self._db.read() as c:
            rows = c.execute(_READ, wanted).fetchall()
        windows = defaultdict[Sending, list[Window]](list)
        for shard, tier, n, intent, outcome in rows:
            windows[Sending(burst, Tier(tier), shard, platform)].append(unpack_window(n, intent, outcome))
        return dict(windows)

    def intend(self, windows: Sequence[tuple[Sending, Window]]) -> Sequence[bool]:
        rows = [(*_key(sending, window), to_ms(window.at), pack_intent(window)) for sending, window in windows]
        over = to_ms(self._clock.now() - KEPT)
        with self._db.write() as c:
            written = [c.execute(_INTEND, row).rowcount == 1 for row in rows]
            c.execute(_SWEEP, (over, SWEPT * len(rows)))
        return written

    def close(self, windows: Sequence[tuple[Sending, Window]]) -> None:
        rows = [(pack_outcome(window), *_key(sending, window)) for sending, window in windows]
        with self._db.write() as c:
            c.executemany(_CLOSE, rows)


def _key(sending: Sending, window: Window) -> Key:
    burst = sending.burst
    return str(burst.subject), burst.seq, sending.shard, str(sending.platform), str(sending.tier), window.n


# Push suppression from core.db: a few index ranges per shard, in one consistent snapshot.

_SPARED = statement("spared")
_LATE_BLOCKS = statement("late_blocks")
_EARLIER = statement("earlier_follows")
_OWN_WORDS = """
    SELECT block * 1024 + slot, volume FROM wants
    WHERE subject = :subject AND block / 128 = :shard AND slot < 1024 AND volume_at >= 0
"""


Given = Mapping[str, object]


class SqliteSpared:
    def __init__(self, db: Database) -> None:
        self._db = db

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, Spare]:
        queries = [_given(burst, shard) for shard in shards]
        with self._db.read() as c:
            never = chain.from_iterable(_never(c, parameters) for parameters in queries)
            suppressed = spared(
                chain.from_iterable(told_in(c, shard) for shard in shards), _own_words(c, queries), burst, now
            )
            return spares(shards, never, suppressed)


def _given(burst: Burst, shard: int) -> Given:
    author = burst.restricted_to
    return {
        "subject": str(burst.key.subject),
        "seq": burst.key.seq,
        "opened_at": to_ms(burst.opened_at),
        "first_of_day": burst.first_of_day,
        "opener": burst.opener,
        "owner": burst.key.subject.owner,
        "never": to_ms(NEVER),
        "author": None if author is None else str(Subject(Kind.MENTION, author)),
        "left": to_ms(LEFT),
        "shard": shard,
        "first": shard * SHARD_MEMBERS,
        "last": (shard + 1) * SHARD_MEMBERS - 1,
    }


def _never(c: sqlite3.Connection, given: Given) -> Iterator[Member]:
    yield from (Member(member) for (member,) in c.execute(_SPARED, given))
    yield from _of_late_blocks(c, given)


def _of_late_blocks(c: sqlite3.Connection, given: Given) -> Collection[Member]:
    """Return members whose whole block follows since after the opening, unless their own row says before it."""
    late = {member for row in c.execute(_LATE_BLOCKS, given) for member in _members(*row)}
    return late - {Member(member) for (member,) in c.execute(_EARLIER, given)} if late else late


def _own_words(c: sqlite3.Connection, asked: Iterable[Given]) -> Mapping[Member, Volume]:
    """Return the volumes of the subject itself, which override the account preferences."""
    rows = chain.from_iterable(c.execute(_OWN_WORDS, parameters) for parameters in asked)
    return {Member(member): Volume(volume) for member, volume in rows}


def _members(block: int, members: bytes) -> Iterator[Member]:
    base = block * BLOCK_MEMBERS
    return (Member(base + slot) for slot in range(BLOCK_MEMBERS) if members[slot // 8] >> slot % 8 & 1)
