"""Stores subject preferences, account preferences and user blocks."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

from notifier.adapters.cassandra.driver.async_reader import CassandraReader
from notifier.adapters.cassandra.driver.batching import Row, batches, put_twofold, together
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.codec.preferences import Told, overall_of, said
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, SHARD_BLOCKS, Bits, block_of, shard_of
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall, OverallWord, overall_sets
from notifier.domain.users.subject_preferences import BlockMute, Volume, Want, Word, standing, wanting
from notifier.domain.users.user_blocks import Apart, Half, Parting, apart, owners
from notifier.ports.users import Pair

# Account preferences: a row per field. A shard is a partition.

# The write timestamp is the time of the change: the latest change of a field wins, regardless of arrival order.
_WRITE = "INSERT INTO preferences (shard, member, thing, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
OF_ONE = "SELECT member, thing, value, WRITETIME(value) AS at FROM preferences WHERE shard = ? AND member = ?"
OF_SOME = "SELECT member, thing, value, WRITETIME(value) AS at FROM preferences WHERE shard = ? AND member IN ?"
OF_SHARD = "SELECT member, thing, value, WRITETIME(value) AS at FROM preferences WHERE shard = ?"

_MICROSECONDS = 1_000
"""Microseconds per millisecond. Cassandra counts write timestamps in microseconds."""


class CassandraOveralls:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, words: Collection[OverallWord]) -> None:
        self._cluster.ask_all([statement for change in words if (statement := account_preferences_written(change))])

    def standing(self, members: Collection[Member]) -> Mapping[Member, Overall]:
        by_shard = defaultdict[int, list[Member]](list)
        for member in members:
            by_shard[shard_of(member)].append(member)
        answers = self._cluster.ask_each(OF_SOME, list(by_shard.items()))
        return overalls_of(row for rows in answers for row in rows)

    def sets(self, shard: int) -> Mapping[SetKind, Bits]:
        return overall_sets(overalls_of(self._cluster.ask(OF_SHARD, (shard,))))


def account_preferences_written(word: OverallWord) -> tuple[str, Row] | None:
    """Return one atomic message that writes the change to one partition, or None if the change is empty."""
    place, at = (shard_of(word.member), word.member), to_ms(word.at) * _MICROSECONDS
    rows = [(*place, thing, value, at) for thing, value in said(word).items()]
    return together(_WRITE, rows) if rows else None


def overalls_of(rows: Iterable[Any]) -> Mapping[Member, Overall]:
    preferences: defaultdict[Member, dict[str, tuple[str, datetime]]] = defaultdict(dict)
    for row in rows:
        preferences[Member(row.member)][row.thing] = row.value, from_ms(row.at // _MICROSECONDS)
    return {member: overall_of(things) for member, things in preferences.items()}


def told_by(rows: Iterable[Any]) -> Iterator[tuple[Member, Told]]:
    """Yield the members with account preferences and their fields, from the answer to OF_SHARD,
    in the table's order.
    """
    for member, group in groupby(rows, attrgetter("member")):
        yield Member(member), tuple((row.thing, row.value) for row in group)


def overall_by(member: Member, rows: Iterable[Any]) -> Overall:
    return overalls_of(rows).get(member, NOTHING_SAID)


# Subject preferences: each is stored by member block and by subject. The latest change of a field wins.

# The write timestamp is the time of the change: the latest change of a field wins, regardless of arrival order. A
# change leaves other fields alone.
_ABOUT: tuple[tuple[str, ...], ...] = (("volume",), ("visible_from",), ("volume", "visible_from"))
WRITE = {
    of: f"INSERT INTO wants (block, slot, subject, {', '.join(of)}) VALUES (?, ?, ?, {', '.join('?' * len(of))})"
    " USING TIMESTAMP ?"
    for of in _ABOUT
}
WRITE_OF_SUBJECT = {
    of: f"INSERT INTO wants_of_subject (block, slot, subject, {', '.join(of)}, shard)"
    f" VALUES (?, ?, ?, {', '.join('?' * len(of))}, ?) USING TIMESTAMP ?"
    for of in _ABOUT
}
_SAID = "volume, visible_from, WRITETIME(volume) AS volume_at, WRITETIME(visible_from) AS visible_from_at"
OF_MEMBER = f"SELECT slot, subject, members, {_SAID} FROM wants WHERE block = ? AND slot IN ?"
_MUTE = "INSERT INTO wants (block, slot, subject, members) VALUES (?, ?, ?, ?)"
_MUTE_OF_SUBJECT = "INSERT INTO wants_of_subject (subject, shard, block, slot, members) VALUES (?, ?, ?, ?, ?)"
_OF_PAIRS = f"SELECT slot, {_SAID} FROM wants WHERE block = ? AND slot IN ? AND subject = ?"
_OF_SHARD = f"SELECT block, slot, members, {_SAID} FROM wants_of_subject WHERE subject = ? AND shard = ?"

Statement = tuple[str, Row]


class CassandraWants:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, words: Collection[Word]) -> None:
        # Write the subject table first: alerts stop no later than the inbox hides bursts. After an interruption the
        # caller writes both again.
        for statements in zip(*(written(change) for change in words), strict=True):
            self._cluster.ask_all(statements)

    def write_mutes(self, mutes: Iterable[BlockMute]) -> None:
        put_twofold(self._cluster, (_MUTE_OF_SUBJECT, _MUTE), map(_mute, mutes))

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, Want]:
        by_block: defaultdict[tuple[int, Subject], list[int]] = defaultdict(list)
        for subject, member in pairs:
            by_block[member // BLOCK_MEMBERS, subject].append(member % BLOCK_MEMBERS)
        questions = [(block, sorted(slots), str(subject)) for (block, subject), slots in by_block.items()]
        answers = zip(by_block, self._cluster.ask_each(_OF_PAIRS, questions), strict=True)
        preferences = [_word(block, subject, row) for (block, subject), rows in answers for row in rows]
        return {(preference.subject, preference.member): preference for preference in preferences}

    def sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        rows = self._cluster.ask(_OF_SHARD, (str(subject), shard))
        mutes = [BlockMute(subject=subject, block=r.block, members=r.members) for r in rows if r.slot == BLOCK_SLOT]
        return wanting([_word(row.block, subject, row) for row in rows if row.slot < BLOCK_SLOT], mutes)


def written(word: Word) -> tuple[Statement, Statement]:
    """Return the statements for the subject table and the block table."""
    block, slot = divmod(word.member, BLOCK_MEMBERS)
    fields = {
        "volume": word.volume and str(word.volume),
        "visible_from": word.visible_from and to_ms(word.visible_from),
    }
    columns = tuple(name for name, value in fields.items() if value is not None)
    row, at = (
        (block, slot, str(word.subject), *(fields[name] for name in columns)),
        to_ms(word.at) * _MICROSECONDS,
    )
    return (WRITE_OF_SUBJECT[columns], (*row, shard_of(word.member), at)), (WRITE[columns], (*row, at))


def _mute(mute: BlockMute) -> tuple[Row, Row]:
    subject, block, members = str(mute.subject), mute.block, mute.members
    return (subject, block // SHARD_BLOCKS, block, BLOCK_SLOT, members), (block, BLOCK_SLOT, subject, members)


def wants_of(member: Member, rows: Iterable[Any]) -> Mapping[Subject, Want]:
    """Return the member's preferences from the answer to OF_MEMBER."""
    block, own, mutes = member // BLOCK_MEMBERS, list[Want](), list[BlockMute]()
    for row in rows:
        subject = Subject.parse(row.subject)
        if row.slot == BLOCK_SLOT:
            mutes.append(BlockMute(subject=subject, block=block, members=row.members))
        else:
            own.append(_word(block, subject, row))
    return standing(member, own, mutes)


def _word(block: int, subject: Subject, row: Any) -> Want:
    return Want(
        subject=subject,
        member=Member(block * BLOCK_MEMBERS + row.slot),
        at=from_ms(max(row.volume_at or 0, row.visible_from_at or 0) // _MICROSECONDS),
        volume=Volume(row.volume or Volume.DEFAULT),
        visible_from=from_ms(row.visible_from or 0),
    )


class CassandraPreferences:
    """Preferences of users. Reads and writes use a quorum, so that each read sees all acknowledged writes."""

    def __init__(self, reader: CassandraReader) -> None:
        self._reader = reader

    async def read(self, member: Member) -> Mapping[Subject, Want]:
        block, slot = divmod(member, BLOCK_MEMBERS)
        return wants_of(member, await self._reader(OF_MEMBER, (block, [slot, BLOCK_SLOT])))

    async def write(self, word: Word) -> None:
        # In the order of the indexer, for the same reasons. After an interruption the user or the indexer writes it
        # again.
        for statement, row in written(word):
            await self._reader(statement, row)

    async def overall(self, member: Member) -> Overall:
        return overall_by(member, await self._reader(OF_ONE, (shard_of(member), member)))

    async def say(self, word: OverallWord) -> None:
        if statement := account_preferences_written(word):
            await self._reader(*statement)


# User blocks: each side is stored by the member's block and by the other account. The highest sequence wins.

NAMES = 100
"""Accounts of a partition per query. A node warns about many more."""
FEW = 200
"""Rows of a member, of both sides, in one query. Hardly any user has more."""

# The sequence is the write timestamp: the highest wins regardless of arrival order. On a tie the larger value wins,
# which is the block.
_WRITE_BLOCK = "INSERT INTO partings (block, member, other, side, until) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
_WRITE_OF_ACCOUNT = """
    INSERT INTO partings_of_account (other, shard, member, side, until) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?
"""
OF_BOTH = "SELECT other, until FROM partings WHERE block = ? AND member = ? LIMIT ?"
_OWN = "SELECT other, until FROM partings WHERE block = ? AND member = ? AND side = 'blocks'"
_OTHERS = "SELECT other, until FROM partings WHERE block = ? AND member = ? AND side = 'blocked_by' LIMIT ?"
_BY_NAME = "SELECT other, until FROM partings WHERE block = ? AND member = ? AND side = 'blocked_by' AND other IN ?"
OF_ACCOUNT = "SELECT member, until FROM partings_of_account WHERE other = ? AND shard = ?"


class CassandraPartings:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, partings: Collection[Parting]) -> None:
        # Write by account first: a user must not be alerted of what the inbox hides. After any interruption the caller
        # writes everything again.
        halves = [half for parting in partings for half in parting.halves]
        self._cluster.ask_each(_WRITE_OF_ACCOUNT, [_of_account(half) for half in halves])
        self._cluster.ask_each(_WRITE_BLOCK, [_of_block(half) for half in halves])


async def apart_of(
    reader: CassandraReader, member: Member, rows: Sequence[Any], follows: Iterable[Subject], most: int
) -> Apart:
    """Return the user blocks from the answer to OF_BOTH with the limit `few(most)`. Query again if that wasn't all.

    If more than `most` accounts block the member, return the first of them and those that the member follows.
    """
    if len(rows) == few(most):
        place = block_of(member), member
        own, blockers = await reader.all([(_OWN, place), (_OTHERS, (*place, most))])
        named = [(*place, batch) for batch in batches(owners(follows), NAMES)] if len(blockers) == most else []
        rows = [*own, *blockers, *chain(*await reader.each(_BY_NAME, named))]
    return apart((UserId(row.other), from_ms(row.until)) for row in rows)


def few(most: int) -> int:
    """Return the limit of OF_BOTH."""
    return min(FEW, most)


def _of_block(half: Half) -> tuple[object, ...]:
    return block_of(half.member), half.member, half.other, str(half.side), to_ms(half.until), half.sequence


def _of_account(half: Half) -> tuple[object, ...]:
    return half.other, shard_of(half.member), half.member, str(half.side), to_ms(half.until), half.sequence
