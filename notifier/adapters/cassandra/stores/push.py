"""Stores the send log, and reads push suppression.

A batch is recorded by a conditional write before it is sent. Its failures are recorded afterwards.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, groupby, islice, zip_longest
from typing import Any, TypeVar

from notifier.adapters.cassandra.driver.batching import MAX_ROWS_PER_BATCH, Row, batched_rows
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.stores.user_preferences import OF_ACCOUNT, OF_SHARD, account_fields_of
from notifier.codec.preferences import suppressions_by_member
from notifier.codec.push import pack_intent, pack_outcome, suppression_by_shard, unpack_window
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, SHARD_BLOCKS
from notifier.domain.audience.follows import UNFOLLOWED
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Member, Platform, Subject
from notifier.domain.push.send_log import SendLogKey, SendWindow
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.subject_preferences import suppresses_alert as refuses
from notifier.ports.push import PushSuppression

SHARD_RUN = 64
"""Shards whose batches of a provider and tier share a partition and a Paxos round.

A worker has as many at a time, and mostly no other worker has any of them.
"""
AT_ONCE = 16_384
"""Bytes of intents per Paxos round. 64 shards with few users each have 3 KB; a large batch has its own round."""
IN_A_MESSAGE = 4_096
"""Bytes of outcomes per message. The server warns above 5 KiB in several rows, and rejects above 50 KiB."""

# No TTL is bound: a batch doesn't know when its burst opened. The default is a day longer than it can be delivered.
_INTEND = """
    INSERT INTO send_log (subject, seq, platform, tier, shard_run, shard, number, intent)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    IF NOT EXISTS
"""
_CLOSE = """
    UPDATE send_log SET outcome = ?
    WHERE subject = ? AND seq = ? AND platform = ? AND tier = ? AND shard_run = ? AND shard = ? AND number = ?
"""
_READ = """
    SELECT shard, number, intent, outcome FROM send_log
    WHERE subject = ? AND seq = ? AND platform = ? AND tier = ? AND shard_run = ? AND shard IN ?
"""

Key = tuple[str, int, str, str, int, int, int]
"""Partition key, then shard and number."""
Intent = tuple[str, int, str, str, int, int, int, bytes]

T = TypeVar("T")


class CassandraSendLog:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(
        self, burst: BurstKey, platform: Platform, shards: Collection[int]
    ) -> Mapping[SendLogKey, Sequence[SendWindow]]:
        # Read at a quorum, not at SERIAL: a batch that may be sent was written by a quorum. A reader may miss a batch
        # whose writer got no answer, and so sent nothing. It then reuses the number, and learns that the number is
        # taken.
        runs = [(run, list(group)) for run, group in groupby(sorted(shards), lambda shard: shard // SHARD_RUN)]
        parts = [(tier, run, group) for tier in Tier for run, group in runs]
        queries = [(str(burst.subject), burst.seq, str(platform), str(tier), run, group) for tier, run, group in parts]
        windows = defaultdict[SendLogKey, list[SendWindow]](list)
        for (tier, _, _), rows in zip(parts, self._cluster.query_each(_READ, queries), strict=True):
            for shard, number, intent, outcome in rows:
                if intent is not None:  # else the row has expired, and its outcome outlives it by a moment
                    windows[SendLogKey(burst, tier, shard, platform)].append(unpack_window(number, intent, outcome))
        return dict(windows)

    def write_ahead(self, windows: Sequence[tuple[SendLogKey, SendWindow]]) -> Sequence[bool]:
        keys = [_key(sending, window) for sending, window in windows]
        first = {key: index for index, key in reversed(list(enumerate(keys)))}
        rows = [(*keys[index], pack_intent(windows[index][1])) for index in sorted(first.values())]
        written = {row[:-1] for groups in _rounds(rows) for row in self._written(groups)}
        return [key in written and first[key] == index for index, key in enumerate(keys)]

    def close(self, windows: Sequence[tuple[SendLogKey, SendWindow]]) -> None:
        rows = [(pack_outcome(window), *_key(sending, window)) for sending, window in windows]
        messages = _sized(rows, lambda row: len(row[0]), most=IN_A_MESSAGE, rows=MAX_ROWS_PER_BATCH)
        self._cluster.query_all(batched_rows(_CLOSE, batch) for batch in messages)

    def _written(self, groups: Sequence[Sequence[Intent]]) -> Iterator[Intent]:
        for group, applied in zip(groups, self._cluster.compare_and_set_batches(_INTEND, groups), strict=True):
            if _certain(applied):
                yield from group
            elif len(group) > 1:
                # One of them existed already, so none was written: try them one by one.
                yield from (row for row in group if _certain(self._cluster.compare_and_set_each([(_INTEND, row)])[0]))


def _certain(written: bool | None) -> bool:
    """Return whether the intents were written.

    Raises StoreUnavailable after a lost answer: otherwise alerts would be sent in a batch that isn't recorded. Nothing
    is then sent of the recorded batches either: they are found incomplete, and sent with the same ids.
    """
    if written is None:
        raise StoreUnavailable("Unknown whether the batch was recorded in the send log.")
    return written


def _rounds(rows: Iterable[Intent]) -> Iterator[Sequence[Sequence[Intent]]]:
    """Yield groups to write concurrently, one per partition: two would contend in the Paxos of the partition."""
    partitions = defaultdict[tuple[object, ...], list[Intent]](list)
    for row in rows:
        partitions[row[:5]].append(row)
    iterators = [
        _sized(intents, lambda row: len(row[-1]), most=AT_ONCE, rows=SHARD_RUN) for intents in partitions.values()
    ]
    for groups in zip_longest(*iterators):
        yield [group for group in groups if group]


def _sized(items: Iterable[T], size: Callable[[T], int], *, most: int, rows: int) -> Iterator[list[T]]:
    """Split items into groups. An item above the size limit is a group by itself."""
    group, total = list[T](), 0
    for item in items:
        if group and (len(group) == rows or total + size(item) > most):
            yield group
            group, total = [], 0
        group.append(item)
        total += size(item)
    if group:
        yield group


def _key(sending: SendLogKey, window: SendWindow) -> Key:
    burst, shard = sending.burst, sending.shard
    return (
        str(burst.subject),
        burst.seq,
        str(sending.platform),
        str(sending.tier),
        shard // SHARD_RUN,
        shard,
        window.number,
    )


# Push suppression: a few ranges per shard, queried concurrently for all shards.

_MARKED = "SELECT member FROM marks_by_burst WHERE subject = ? AND seq = ? AND shard = ?"
_SEEN = "SELECT member FROM seen WHERE shard = ? AND seen_at >= ?"
_DELETED = "SELECT member FROM deleted_members WHERE shard = ?"
# Mutes of whole blocks are left out: they were already current when the audience snapshot was taken.
_PREFERENCES = "SELECT block, slot, volume, visible_from FROM preferences_by_subject WHERE subject = ? AND shard = ?"
# Followed since the opening, or unfollowed.
_LATE = "SELECT block, slot, members FROM follows_by_subject WHERE subject = ? AND shard = ? AND visible_from > ?"
# Unfollowed the protected author.
_LEFT = "SELECT block, slot FROM follows_by_subject WHERE subject = ? AND shard = ? AND visible_from = ?"
_OF_BLOCK = "SELECT block, slot, visible_from FROM follows_by_subject WHERE subject = ? AND shard = ? AND block = ?"


class CassandraPushSuppressions:
    """Reads push suppression.

    The reads are no snapshot, and need not be. Each fact suppresses by itself, and a concurrent fact counts or doesn't,
    as if all had been read before it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, PushSuppression]:
        subject, author, opened_at = str(burst.key.subject), burst.restricted_to, to_ms(burst.opened_at)
        queries: list[tuple[str, Sequence[Row]]] = [
            (_LATE, [(subject, shard, opened_at) for shard in shards]),
            (_PREFERENCES, [(subject, shard) for shard in shards]),
            (OF_SHARD, [(shard,) for shard in shards]),
            (OF_ACCOUNT, [(burst.opener, shard) for shard in shards]),
            (OF_ACCOUNT, [(burst.key.subject.owner, shard) for shard in shards]),
            (_MARKED, [(subject, burst.key.seq, shard) for shard in shards]),
            (_SEEN, [(shard, opened_at) for shard in shards]),
            (_DELETED, [(shard,) for shard in shards]),
        ]
        if author is not None:
            queries.append(
                (_LEFT, [(str(Subject(Kind.MENTION, author)), shard, to_ms(UNFOLLOWED)) for shard in shards])
            )
        late, preference_rows, account_preference_rows, of_opener, of_owner, *direct = self._rows(queries)
        unfollowed = direct.pop() if author is not None else []
        own = [row for row in preference_rows if row.slot != BLOCK_SLOT]
        never = chain(
            (Member(row.member) for rows in direct for row in rows),
            (_member(row) for row in own if _is_suppressed(row, burst)),
            # A user block hides the opener from the user; or the account, now or at the opening.
            (Member(row.member) for row in of_opener if row.until == to_ms(NEVER)),
            (Member(row.member) for row in of_owner if row.until > opened_at),
            (_member(row) for row in (*late, *unfollowed) if row.slot != BLOCK_SLOT),
            self._of_late_blocks(subject, opened_at, [row for row in late if row.slot == BLOCK_SLOT]),
        )
        # Subject preferences override account preferences.
        volumes = {_member(row): Volume(row.volume) for row in own if row.volume}
        return suppression_by_shard(
            shards, never, suppressions_by_member(account_fields_of(account_preference_rows), volumes, burst, now)
        )

    def _rows(self, queries: Sequence[tuple[str, Sequence[Row]]]) -> list[list[Any]]:
        """Return all rows for each kind of query, shard after shard."""
        answers = iter(
            self._cluster.query_all((statement, values) for statement, parameters in queries for values in parameters)
        )
        return [list(chain.from_iterable(islice(answers, len(parameters)))) for _, parameters in queries]

    def _of_late_blocks(self, subject: str, opened_at: int, blocks: Iterable[Any]) -> Iterator[Member]:
        """Yield members whose whole block follows since after the opening, unless their own row says before it."""
        late = {row.block: set(_members(row)) for row in blocks}
        for own in self._cluster.query_each(_OF_BLOCK, [(subject, block // SHARD_BLOCKS, block) for block in late]):
            for row in own:
                if row.slot < BLOCK_SLOT and row.visible_from <= opened_at:
                    late[row.block].discard(_member(row))
        return chain.from_iterable(late.values())


def _is_suppressed(row: Any, burst: Burst) -> bool:
    return refuses(Volume(row.volume or Volume.DEFAULT), from_ms(row.visible_from or 0), burst)


def _member(row: Any) -> Member:
    return Member(row.block * BLOCK_MEMBERS + row.slot)


def _members(row: Any) -> Iterator[Member]:
    base = row.block * BLOCK_MEMBERS
    return (Member(base + slot) for slot in range(BLOCK_MEMBERS) if row.members[slot // 8] >> slot % 8 & 1)
