"""Stores the send log, and reads push suppression, in core.db."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.adapters.sqlite.stores.preferences_and_user_blocks import account_fields_of
from notifier.codec.devices_send_log_suppressions import (
    pack_intent,
    pack_outcome,
    suppression_by_shard,
    suppressions_by_member,
    unpack_batch,
)
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_MEMBERS
from notifier.domain.audience.follows import UNFOLLOWED
from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Member, Platform, Subject
from notifier.domain.push.send_log import SendBatch, SendLogKey
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import PushSuppression

BATCH_KEPT_FOR = SNAPSHOT_KEPT_FOR + timedelta(days=1)
MAX_EXPIRED_PER_BATCH = 2
"""Expired batches deleted for each batch written. With more than one, a backlog shrinks."""

_WHERE_KEY = "subject = ? AND seq = ? AND shard = ? AND platform = ? AND tier = ? AND number = ?"
_INSERT_BATCH = """
    INSERT OR IGNORE INTO send_log (subject, seq, shard, platform, tier, number, at, intent)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE_OUTCOME = f"UPDATE send_log SET outcome = ? WHERE {_WHERE_KEY}"
_SELECT_BATCHES = """
    SELECT shard, tier, number, intent, outcome FROM send_log
    WHERE subject = ? AND seq = ? AND shard IN (SELECT value FROM json_each(?)) AND platform = ?
    ORDER BY shard, tier, number
"""
_DELETE_EXPIRED = """
    DELETE FROM send_log WHERE (subject, seq, shard, platform, tier, number) IN (
        SELECT subject, seq, shard, platform, tier, number FROM send_log WHERE at <= ? LIMIT ?
    )
"""

BatchKey = tuple[str, int, int, str, str, int]
"""Subject, seq, shard, platform, tier and number of a batch."""


class SqliteSendLog:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def read(
        self, burst: BurstKey, platform: Platform, shards: Collection[int]
    ) -> Mapping[SendLogKey, Sequence[SendBatch]]:
        parameters = str(burst.subject), burst.seq, json.dumps(list(shards)), str(platform)
        with self._db.read() as c:
            rows = c.execute(_SELECT_BATCHES, parameters).fetchall()
        batches = defaultdict[SendLogKey, list[SendBatch]](list)
        for shard, tier, number, intent, outcome in rows:
            batches[SendLogKey(burst, Tier(tier), shard, platform)].append(unpack_batch(number, intent, outcome))
        return dict(batches)

    def write_ahead(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> Sequence[bool]:
        rows = [(*_key(log_key, batch), to_ms(batch.at), pack_intent(batch)) for log_key, batch in batches]
        expired_until = to_ms(self._clock.now() - BATCH_KEPT_FOR)
        with self._db.write() as c:
            written = [c.execute(_INSERT_BATCH, row).rowcount == 1 for row in rows]
            c.execute(_DELETE_EXPIRED, (expired_until, MAX_EXPIRED_PER_BATCH * len(rows)))
        return written

    def close(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> None:
        rows = [(pack_outcome(batch), *_key(log_key, batch)) for log_key, batch in batches]
        with self._db.write() as c:
            c.executemany(_UPDATE_OUTCOME, rows)


def _key(log_key: SendLogKey, batch: SendBatch) -> BatchKey:
    burst = log_key.burst
    return str(burst.subject), burst.seq, log_key.shard, str(log_key.platform), str(log_key.tier), batch.number


# Push suppression from core.db, read in one consistent snapshot.

_SELECT_SUPPRESSED = load_statement("read_push_suppression")
_SELECT_LATE_BLOCK_FOLLOWS = load_statement("read_block_follows_after_burst")
_SELECT_EARLY_FOLLOWS = load_statement("read_follows_before_burst")
# A shard has 128 blocks of 1,024 members. Slot 1,024 is the row of the whole block.
_SELECT_OWN_VOLUMES = """
    SELECT block * 1024 + slot, volume FROM subject_preferences
    WHERE subject = :subject AND block / 128 = :shard AND slot < 1024 AND volume_at >= 0
"""


Parameters = Mapping[str, object]


class SqlitePushSuppressions:
    def __init__(self, db: Database) -> None:
        self._db = db

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, PushSuppression]:
        shard_parameters = [_parameters(burst, shard) for shard in shards]
        with self._db.read() as c:
            suppressed = chain.from_iterable(_suppressed_members(c, parameters) for parameters in shard_parameters)
            by_account_preference = suppressions_by_member(
                chain.from_iterable(account_fields_of(c, shard) for shard in shards),
                _own_volumes(c, shard_parameters),
                burst,
                now,
            )
            return suppression_by_shard(shards, suppressed, by_account_preference)


def _parameters(burst: Burst, shard: int) -> Parameters:
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
        "unfollowed": to_ms(UNFOLLOWED),
        "shard": shard,
        "first": shard * SHARD_MEMBERS,
        "last": (shard + 1) * SHARD_MEMBERS - 1,
    }


def _suppressed_members(c: sqlite3.Connection, parameters: Parameters) -> Iterator[Member]:
    yield from (Member(member) for (member,) in c.execute(_SELECT_SUPPRESSED, parameters))
    yield from _late_block_followers(c, parameters)


def _late_block_followers(c: sqlite3.Connection, parameters: Parameters) -> Collection[Member]:
    """Return the members of block follows that began after the opening.

    Leave out members whose own row has an earlier follow: it overrides the block row.
    """
    members = {
        member for row in c.execute(_SELECT_LATE_BLOCK_FOLLOWS, parameters) for member in _members_of_block(*row)
    }
    if not members:
        return members
    return members - {Member(member) for (member,) in c.execute(_SELECT_EARLY_FOLLOWS, parameters)}


def _own_volumes(c: sqlite3.Connection, shard_parameters: Iterable[Parameters]) -> Mapping[Member, Volume]:
    """Return members' own volumes for the subject. They override account preferences."""
    rows = chain.from_iterable(c.execute(_SELECT_OWN_VOLUMES, parameters) for parameters in shard_parameters)
    return {Member(member): Volume(volume) for member, volume in rows}


def _members_of_block(block: int, bitmap: bytes) -> Iterator[Member]:
    first = block * BLOCK_MEMBERS
    return (Member(first + slot) for slot in range(BLOCK_MEMBERS) if bitmap[slot // 8] >> slot % 8 & 1)
