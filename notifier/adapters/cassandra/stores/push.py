"""What was sent to phones: windows by conditional writes before they are sent, and what was missed of them after."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, groupby, islice, zip_longest
from typing import Any, TypeVar

from notifier.adapters.cassandra.driver.batching import TOGETHER, Row, together
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.stores.user_preferences import OF_ACCOUNT, OF_SHARD, told_by
from notifier.codec.preferences import spared
from notifier.codec.push import pack_intent, pack_outcome, spares, unpack_window
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, SHARD_BLOCKS
from notifier.domain.audience.follows import LEFT
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Member, Platform, Subject
from notifier.domain.push.send_log import Sending, Window
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.subject_preferences import spares as refuses
from notifier.ports.push import Spare

RUN = 64
"""Shards whose windows of a provider and tier are one partition, and are written by one round of Paxos: a worker has as
many at a time, and mostly nobody else has any of them."""
AT_ONCE = 16_384
"""Bytes of intents in such a round: those of 64 shards with few people each are 3 KB, and a crowd's is alone."""
IN_A_MESSAGE = 4_096
"""Bytes of outcomes: of more than 5 KiB in several rows the server would warn, and above 50 refuse."""

# No TTL is bound: a window doesn't say when its burst opened, and the default is a day more than it can be delivered.
_INTEND = """
    INSERT INTO sendings (subject, seq, platform, tier, run, shard, n, intent) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    IF NOT EXISTS
"""
_CLOSE = """
    UPDATE sendings SET outcome = ?
    WHERE subject = ? AND seq = ? AND platform = ? AND tier = ? AND run = ? AND shard = ? AND n = ?
"""
_READ = """
    SELECT shard, n, intent, outcome FROM sendings
    WHERE subject = ? AND seq = ? AND platform = ? AND tier = ? AND run = ? AND shard IN ?
"""

Key = tuple[str, int, str, str, int, int, int]
"""Of the partition, and then shard and n."""
Intent = tuple[str, int, str, str, int, int, int, bytes]

T = TypeVar("T")


class CassandraSent:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, burst: BurstKey, platform: Platform, shards: Collection[int]) -> Mapping[Sending, Sequence[Window]]:
        # By a quorum, not at SERIAL: a window that may be sent was written by one. Whoever misses one whose writer had
        # no answer, and so sent nothing, gives its number to another, and is told that it is taken.
        runs = [(run, list(some)) for run, some in groupby(sorted(shards), lambda shard: shard // RUN)]
        each = [(tier, run, some) for tier in Tier for run, some in runs]
        asked = [(str(burst.subject), burst.seq, str(platform), str(tier), run, some) for tier, run, some in each]
        found = defaultdict[Sending, list[Window]](list)
        for (tier, _, _), rows in zip(each, self._cluster.ask_each(_READ, asked), strict=True):
            for shard, n, intent, outcome in rows:
                if intent is not None:  # else it is over, and what was missed outlives it by a moment
                    found[Sending(burst, tier, shard, platform)].append(unpack_window(n, intent, outcome))
        return dict(found)

    def intend(self, windows: Sequence[tuple[Sending, Window]]) -> Sequence[bool]:
        keys = [_key(sending, window) for sending, window in windows]
        first = {key: place for place, key in reversed(list(enumerate(keys)))}
        rows = [(*keys[place], pack_intent(windows[place][1])) for place in sorted(first.values())]
        written = {row[:-1] for groups in _rounds(rows) for row in self._written(groups)}
        return [key in written and first[key] == place for place, key in enumerate(keys)]

    def close(self, windows: Sequence[tuple[Sending, Window]]) -> None:
        rows = [(pack_outcome(window), *_key(sending, window)) for sending, window in windows]
        messages = _sized(rows, lambda row: len(row[0]), most=IN_A_MESSAGE, rows=TOGETHER)
        self._cluster.ask_all(together(_CLOSE, some) for some in messages)

    def _written(self, groups: Sequence[Sequence[Intent]]) -> Iterator[Intent]:
        for group, all_of_it in zip(groups, self._cluster.decide_together(_INTEND, groups), strict=True):
            if _known(all_of_it):
                yield from group
            elif len(group) > 1:
                # One of them was there already, so none was written: they are tried one by one.
                yield from (row for row in group if _known(self._cluster.decide_each([(_INTEND, row)])[0]))


def _known(written: bool | None) -> bool:
    """Raises without an answer, or somebody would be sent to by a window that nobody knows of. Of those that do stand
    nothing is sent then: they are found broken, and sent with the same ids."""
    if written is None:
        raise StoreUnavailable("Whether what is to be sent was written isn't known.")
    return written


def _rounds(rows: Iterable[Intent]) -> Iterator[Sequence[Sequence[Intent]]]:
    """Groups to be written side by side, of each partition one: two would stand in each other's way at its Paxos."""
    partitions = defaultdict[tuple[object, ...], list[Intent]](list)
    for row in rows:
        partitions[row[:5]].append(row)
    each = [_sized(some, lambda row: len(row[-1]), most=AT_ONCE, rows=RUN) for some in partitions.values()]
    for groups in zip_longest(*each):
        yield [group for group in groups if group]


def _sized(each: Iterable[T], size: Callable[[T], int], *, most: int, rows: int) -> Iterator[list[T]]:
    """What is larger than the most is alone."""
    some, total = list[T](), 0
    for one in each:
        if some and (len(some) == rows or total + size(one) > most):
            yield some
            some, total = [], 0
        some.append(one)
        total += size(one)
    if some:
        yield some


def _key(sending: Sending, window: Window) -> Key:
    burst, shard = sending.burst, sending.shard
    return str(burst.subject), burst.seq, str(sending.platform), str(sending.tier), shard // RUN, shard, window.n


# Who is to be spared an alert: a few ranges a shard, those of all shards asked for side by side.

_MARKED = "SELECT member FROM marks_of_burst WHERE subject = ? AND seq = ? AND shard = ?"
_SEEN = "SELECT member FROM seen WHERE shard = ? AND seen_at >= ?"
_DELETED = "SELECT member FROM deleted_members WHERE shard = ?"
# Without the mutes of whole blocks: they stood when it was sealed.
_WANTS = "SELECT block, slot, volume, visible_from FROM wants_of_subject WHERE subject = ? AND shard = ?"
# Followed since the opening; left.
_LATE = "SELECT block, slot, members FROM follows_of_subject WHERE subject = ? AND shard = ? AND visible_from > ?"
# Left the protected author.
_LEFT = "SELECT block, slot FROM follows_of_subject WHERE subject = ? AND shard = ? AND visible_from = ?"
_OF_BLOCK = "SELECT block, slot, visible_from FROM follows_of_subject WHERE subject = ? AND shard = ? AND block = ?"


class CassandraSpared:
    """Several reads are no one look, and need not be: each fact spares by itself, and one that comes meanwhile counts
    or doesn't, as if all had been read before it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, Spare]:
        subject, author, opened_at = str(burst.key.subject), burst.restricted_to, to_ms(burst.opened_at)
        asked: list[tuple[str, Sequence[Row]]] = [
            (_LATE, [(subject, shard, opened_at) for shard in shards]),
            (_WANTS, [(subject, shard) for shard in shards]),
            (OF_SHARD, [(shard,) for shard in shards]),
            (OF_ACCOUNT, [(burst.opener, shard) for shard in shards]),
            (OF_ACCOUNT, [(burst.key.subject.owner, shard) for shard in shards]),
            (_MARKED, [(subject, burst.key.seq, shard) for shard in shards]),
            (_SEEN, [(shard, opened_at) for shard in shards]),
            (_DELETED, [(shard,) for shard in shards]),
        ]
        if author is not None:
            asked.append((_LEFT, [(str(Subject(Kind.MENTION, author)), shard, to_ms(LEFT)) for shard in shards]))
        late, wants, everything, of_opener, of_owner, *others = self._rows(asked)
        left = others.pop() if author is not None else []
        own = [row for row in wants if row.slot != BLOCK_SLOT]
        never = chain(
            (Member(row.member) for rows in others for row in rows),
            (_member(row) for row in own if _spares(row, burst)),
            # A block parts them from the opener; or from the account, or did so at the opening.
            (Member(row.member) for row in of_opener if row.until == to_ms(NEVER)),
            (Member(row.member) for row in of_owner if row.until > opened_at),
            (_member(row) for row in (*late, *left) if row.slot != BLOCK_SLOT),
            self._of_late_blocks(subject, opened_at, [row for row in late if row.slot == BLOCK_SLOT]),
        )
        # The subject's words go before those of everything.
        said = {_member(row): Volume(row.volume) for row in own if row.volume}
        return spares(shards, never, spared(told_by(everything), said, burst, now))

    def _rows(self, asked: Sequence[tuple[str, Sequence[Row]]]) -> list[list[Any]]:
        """Of each kind of question all rows, shard after shard."""
        answers = iter(self._cluster.ask_all((statement, values) for statement, each in asked for values in each))
        return [list(chain.from_iterable(islice(answers, len(each)))) for _, each in asked]

    def _of_late_blocks(self, subject: str, opened_at: int, blocks: Iterable[Any]) -> Iterator[Member]:
        """Those whose whole block follows since after the opening, without those whose own row says since before it."""
        late = {row.block: set(_members(row)) for row in blocks}
        for own in self._cluster.ask_each(_OF_BLOCK, [(subject, block // SHARD_BLOCKS, block) for block in late]):
            for row in own:
                if row.slot < BLOCK_SLOT and row.visible_from <= opened_at:
                    late[row.block].discard(_member(row))
        return chain.from_iterable(late.values())


def _spares(row: Any, burst: Burst) -> bool:
    return refuses(Volume(row.volume or Volume.DEFAULT), from_ms(row.visible_from or 0), burst)


def _member(row: Any) -> Member:
    return Member(row.block * BLOCK_MEMBERS + row.slot)


def _members(row: Any) -> Iterator[Member]:
    base = row.block * BLOCK_MEMBERS
    return (Member(base + slot) for slot in range(BLOCK_MEMBERS) if row.members[slot // 8] >> slot % 8 & 1)
