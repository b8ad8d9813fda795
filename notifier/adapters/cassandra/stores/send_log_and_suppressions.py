"""Stores the send log, and reads push suppression.

A conditional write records the intent of a batch before the batch is sent. The batch's outcome is recorded afterwards.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, groupby, islice, zip_longest
from typing import Any, TypeVar

from notifier.adapters.cassandra.driver.batching import MAX_ROWS_PER_BATCH, Row, batched_rows
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.stores.preferences_and_user_blocks import (
    SELECT_ACCOUNT_PREFERENCES_OF_SHARD,
    SELECT_USER_BLOCKS_OF_ACCOUNT,
    account_fields_of,
)
from notifier.codec.devices_send_log_suppressions import (
    pack_intent,
    pack_outcome,
    suppression_by_shard,
    suppressions_by_member,
    unpack_batch,
)
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_BLOCKS, WHOLE_BLOCK_SLOT
from notifier.domain.audience.follows import UNFOLLOWED
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Member, Platform, Subject
from notifier.domain.push.send_log import SendBatch, SendLogKey
from notifier.domain.users.subject_preferences import NEVER, Volume, suppresses_alert
from notifier.ports.push import PushSuppression

SHARDS_PER_LOG_PARTITION = 64
"""Shards whose batches of a provider and tier share a partition of the send log, and a Paxos round.

Mostly a single worker sends to these shards, so Paxos rounds seldom contend. The number of the log partition is stored
as `shard_run`.
"""
MAX_ROUND_BYTES = 16_384
"""Maximum bytes of intents per Paxos round. The intents of 64 shards with few users take 3 KB together."""
MAX_CQL_BATCH_BYTES = 4_096
"""Maximum bytes of outcomes per CQL batch. A node warns about a batch above 5 KiB, and rejects one above 50 KiB."""

# No TTL is bound, because a batch of devices doesn't know when its burst opened. The default TTL of the table is longer
# than the time in which alerts of a burst may be sent.
_INSERT_BATCH = """
    INSERT INTO send_log (subject, seq, platform, tier, shard_run, shard, number, intent)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    IF NOT EXISTS
"""
_UPDATE_OUTCOME = """
    UPDATE send_log SET outcome = ?
    WHERE subject = ? AND seq = ? AND platform = ? AND tier = ? AND shard_run = ? AND shard = ? AND number = ?
"""
_SELECT_BATCHES = """
    SELECT shard, number, intent, outcome FROM send_log
    WHERE subject = ? AND seq = ? AND platform = ? AND tier = ? AND shard_run = ? AND shard IN ?
"""

LogRowKey = tuple[str, int, str, str, int, int, int]
"""Primary key of a batch: the five columns of the partition key, then shard and number."""
IntentRow = tuple[str, int, str, str, int, int, int, bytes]
"""Primary key of a batch, and the packed intent."""

T = TypeVar("T")


class CassandraSendLog:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(
        self, burst: BurstKey, platform: Platform, shards: Collection[int]
    ) -> Mapping[SendLogKey, Sequence[SendBatch]]:
        # Read at a quorum, not at SERIAL. A batch that may have been sent is stored on a quorum, so this read finds it.
        # The read may miss a batch whose writer got no response, and therefore did not send it. If the caller then uses
        # that batch's number, `write_ahead` refuses the write.
        groups = groupby(sorted(shards), lambda shard: shard // SHARDS_PER_LOG_PARTITION)
        shards_by_partition = {partition: list(group) for partition, group in groups}
        tier_partitions = [
            (tier, partition, group) for tier in Tier for partition, group in shards_by_partition.items()
        ]
        queries = [
            (str(burst.subject), burst.seq, str(platform), str(tier), partition, group)
            for tier, partition, group in tier_partitions
        ]
        batches = defaultdict[SendLogKey, list[SendBatch]](list)
        for (tier, _, _), rows in zip(tier_partitions, self._cluster.query_each(_SELECT_BATCHES, queries), strict=True):
            for shard, number, intent, outcome in rows:
                # An outcome is written after its intent, and expires later. A row without intent is an expired batch.
                if intent is not None:
                    batches[SendLogKey(burst, tier, shard, platform)].append(unpack_batch(number, intent, outcome))
        return dict(batches)

    def write_ahead(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> Sequence[bool]:
        keys = [_key(log_key, batch) for log_key, batch in batches]
        # If several batches have the same key, only the first can be written.
        first_index: dict[LogRowKey, int] = {}
        for index, key in enumerate(keys):
            first_index.setdefault(key, index)
        rows = [(*key, pack_intent(batches[index][1])) for key, index in first_index.items()]
        written_keys = {row[:-1] for groups in _groups_to_write(rows) for row in self._write_groups(groups)}
        return [key in written_keys and first_index[key] == index for index, key in enumerate(keys)]

    def close(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> None:
        rows = [(pack_outcome(batch), *_key(log_key, batch)) for log_key, batch in batches]
        groups = _split(rows, lambda row: len(row[0]), max_bytes=MAX_CQL_BATCH_BYTES, max_items=MAX_ROWS_PER_BATCH)
        self._cluster.query_all(batched_rows(_UPDATE_OUTCOME, group) for group in groups)

    def _write_groups(self, groups: Sequence[Sequence[IntentRow]]) -> Iterator[IntentRow]:
        """Write the groups concurrently, without the rows that exist already. Yield the rows that were written."""
        for group, applied in zip(groups, self._cluster.compare_and_set_batches(_INSERT_BATCH, groups), strict=True):
            if _require_known(applied):
                yield from group
            elif len(group) > 1:
                # No row of the group was written, because at least one existed: write them one by one.
                yield from (
                    row
                    for row in group
                    if _require_known(self._cluster.compare_and_set_each([(_INSERT_BATCH, row)])[0])
                )


def _require_known(applied: bool | None) -> bool:
    """Return whether the batches were recorded, or raise StoreUnavailable if the response was lost.

    Alerts must not be sent before their batch is recorded. After the error the caller sends no batch of this call. The
    next worker finds the recorded batches without outcomes, and sends their alerts with the same ids.
    """
    if applied is None:
        raise StoreUnavailable("Unknown whether the batch was recorded in the send log.")
    return applied


def _groups_to_write(rows: Iterable[IntentRow]) -> Iterator[Sequence[Sequence[IntentRow]]]:
    """Yield lists of groups to write concurrently, each group in one Paxos round.

    The groups of a list are in different partitions, because conditional writes to one partition would contend.
    """
    partitions = defaultdict[tuple[object, ...], list[IntentRow]](list)
    for row in rows:
        partitions[row[:5]].append(row)
    iterators = [
        _split(intents, lambda row: len(row[-1]), max_bytes=MAX_ROUND_BYTES, max_items=SHARDS_PER_LOG_PARTITION)
        for intents in partitions.values()
    ]
    for groups in zip_longest(*iterators):
        yield [group for group in groups if group]


def _split(items: Iterable[T], size: Callable[[T], int], *, max_bytes: int, max_items: int) -> Iterator[list[T]]:
    """Split items into groups within both limits. An item larger than `max_bytes` is a group by itself."""
    group, total = list[T](), 0
    for item in items:
        if group and (len(group) == max_items or total + size(item) > max_bytes):
            yield group
            group, total = [], 0
        group.append(item)
        total += size(item)
    if group:
        yield group


def _key(log_key: SendLogKey, batch: SendBatch) -> LogRowKey:
    burst, shard = log_key.burst, log_key.shard
    return (
        str(burst.subject),
        burst.seq,
        str(log_key.platform),
        str(log_key.tier),
        shard // SHARDS_PER_LOG_PARTITION,
        shard,
        batch.number,
    )


# Push suppression

_SELECT_MARKED = "SELECT member FROM marks_by_burst WHERE subject = ? AND seq = ? AND shard = ?"
_SELECT_SEEN = "SELECT member FROM seen WHERE shard = ? AND seen_at >= ?"
_SELECT_DELETED = "SELECT member FROM deleted_members WHERE shard = ?"
# The rows include mutes of whole member blocks, which are ignored: the audience snapshot has applied them.
_SELECT_PREFERENCES = (
    "SELECT block, slot, volume, visible_from FROM preferences_by_subject WHERE subject = ? AND shard = ?"
)
# Follows that began after the opening, and unfollows: an unfollow has the time UNFOLLOWED, which is after every
# opening.
_SELECT_NEW_FOLLOWS = (
    "SELECT block, slot, members FROM follows_by_subject WHERE subject = ? AND shard = ? AND visible_from > ?"
)
# Members who unfollowed the protected author of a restricted burst.
_SELECT_UNFOLLOWS = "SELECT block, slot FROM follows_by_subject WHERE subject = ? AND shard = ? AND visible_from = ?"
_SELECT_FOLLOWS_OF_MEMBER_BLOCK = (
    "SELECT block, slot, visible_from FROM follows_by_subject WHERE subject = ? AND shard = ? AND block = ?"
)


class CassandraPushSuppressions:
    """Reads push suppression.

    The reads are not one consistent snapshot. A read may miss a fact that is written at the same time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, PushSuppression]:
        subject, author, opened_at = str(burst.key.subject), burst.restricted_to, to_ms(burst.opened_at)
        queries: list[tuple[str, Sequence[Row]]] = [
            (_SELECT_NEW_FOLLOWS, [(subject, shard, opened_at) for shard in shards]),
            (_SELECT_PREFERENCES, [(subject, shard) for shard in shards]),
            (SELECT_ACCOUNT_PREFERENCES_OF_SHARD, [(shard,) for shard in shards]),
            (SELECT_USER_BLOCKS_OF_ACCOUNT, [(burst.opener, shard) for shard in shards]),
            (SELECT_USER_BLOCKS_OF_ACCOUNT, [(burst.key.subject.owner, shard) for shard in shards]),
            (_SELECT_MARKED, [(subject, burst.key.seq, shard) for shard in shards]),
            (_SELECT_SEEN, [(shard, opened_at) for shard in shards]),
            (_SELECT_DELETED, [(shard,) for shard in shards]),
        ]
        if author is not None:
            queries.append(
                (
                    _SELECT_UNFOLLOWS,
                    [(str(Subject(Kind.MENTION, author)), shard, to_ms(UNFOLLOWED)) for shard in shards],
                )
            )
        (
            new_follow_rows,
            preference_rows,
            account_preference_rows,
            opener_block_rows,
            account_block_rows,
            mark_rows,
            seen_rows,
            deleted_rows,
            *unfollow_rows,
        ) = self._read_rows(queries)
        member_preference_rows = [row for row in preference_rows if row.slot != WHOLE_BLOCK_SLOT]
        suppressed = chain(
            (Member(row.member) for row in (*mark_rows, *seen_rows, *deleted_rows)),
            (_member(row) for row in member_preference_rows if _suppresses_alert(row, burst)),
            # A user block between the member and the opener counts while it is in force. A user block between the
            # member and the subject's account counts unless it ended before the opening.
            (Member(row.member) for row in opener_block_rows if row.until == to_ms(NEVER)),
            (Member(row.member) for row in account_block_rows if row.until > opened_at),
            (_member(row) for row in chain(new_follow_rows, *unfollow_rows) if row.slot != WHOLE_BLOCK_SLOT),
            self._new_followers_by_block_row(
                subject, opened_at, [row for row in new_follow_rows if row.slot == WHOLE_BLOCK_SLOT]
            ),
        )
        # Subject preferences override account preferences.
        volumes = {_member(row): Volume(row.volume) for row in member_preference_rows if row.volume}
        by_account_preference = suppressions_by_member(account_fields_of(account_preference_rows), volumes, burst, now)
        return suppression_by_shard(shards, suppressed, by_account_preference)

    def _read_rows(self, queries: Sequence[tuple[str, Sequence[Row]]]) -> list[list[Any]]:
        """Run each statement for each of its parameter rows. Return all rows of each statement."""
        results = iter(
            self._cluster.query_all((statement, values) for statement, parameters in queries for values in parameters)
        )
        return [list(chain.from_iterable(islice(results, len(parameters)))) for _, parameters in queries]

    def _new_followers_by_block_row(self, subject: str, opened_at: int, block_rows: Iterable[Any]) -> Iterator[Member]:
        """Yield the members of `block_rows`, which hold follows that began after the opening.

        Skip a member whose own row has an earlier follow: that row overrides the block row.
        """
        members_by_block = {row.block: set(_members_of_block_row(row)) for row in block_rows}
        queries = [(subject, block // SHARD_BLOCKS, block) for block in members_by_block]
        for rows in self._cluster.query_each(_SELECT_FOLLOWS_OF_MEMBER_BLOCK, queries):
            for row in rows:
                if row.slot < WHOLE_BLOCK_SLOT and row.visible_from <= opened_at:
                    members_by_block[row.block].discard(_member(row))
        return chain.from_iterable(members_by_block.values())


def _suppresses_alert(row: Any, burst: Burst) -> bool:
    return suppresses_alert(Volume(row.volume or Volume.DEFAULT), from_ms(row.visible_from or 0), burst)


def _member(row: Any) -> Member:
    return Member(row.block * BLOCK_MEMBERS + row.slot)


def _members_of_block_row(row: Any) -> Iterator[Member]:
    base = row.block * BLOCK_MEMBERS
    return (Member(base + slot) for slot in range(BLOCK_MEMBERS) if row.members[slot // 8] >> slot % 8 & 1)
