"""Reads and writes one user's state: follows, preferences, blocks, marks and seen time.

The state is a few ranges of the user's own block, which are queried concurrently.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from notifier.adapters.cassandra.driver.async_reader import CassandraReader
from notifier.adapters.cassandra.driver.batching import Row
from notifier.adapters.cassandra.schema.partitioning import ROW_LIFETIME, run_of, seconds_until
from notifier.adapters.cassandra.stores.directory import ACCOUNT, CURRENT_FLAGS, RANGE_OF_ID, entry_of, id_range
from notifier.adapters.cassandra.stores.user_preferences import (
    OF_BOTH,
    OF_MEMBER,
    OF_ONE,
    block_query_limit,
    member_account_preferences,
    subject_preferences_of,
    user_blocks_of,
)
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.account_flags import Flag
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, block_of, shard_of
from notifier.domain.audience.follows import UNFOLLOWED
from notifier.domain.audience.id_ranges import RangeCache, bucket_of, split_id
from notifier.domain.bursts.burst import expires_at
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.domain.users.account_preferences import visible_from
from notifier.domain.users.subject_preferences import own_volumes
from notifier.domain.users.user_blocks import MAX_BLOCKERS, blocked_accounts, visible_after_unblock
from notifier.domain.users.visibility import Mark, Marks, Viewer
from notifier.ports.coordination import Clock
from notifier.ports.users import InboxContext

_FOLLOWS = "SELECT slot, subject, visible_from, members FROM follows WHERE block = ? AND slot IN ?"
_SEEN = "SELECT seen_at FROM seen WHERE shard = ? AND member = ?"
_MARKS = "SELECT subject, seq, mark, also_seen FROM marks WHERE block = ? AND member = ?"
_OPENED = "SELECT opened_at FROM bursts WHERE subject = ? AND run = ? AND seq = ?"
# The later time has the higher write timestamp: it wins, regardless of arrival order.
_ADVANCE_SEEN = "INSERT INTO seen (shard, member, seen_at) VALUES (?, ?, ?) USING TIMESTAMP ?"
_MARKED = "SELECT WRITETIME(mark) AS at FROM marks WHERE block = ? AND member = ? AND subject = ? AND seq = ?"
_MARK = "INSERT INTO marks (block, member, subject, seq, mark) VALUES (?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
_ALSO_SEEN = "INSERT INTO marks (block, member, subject, seq, also_seen) VALUES (?, ?, ?, ?, ?) USING TTL ?"
# No TTL is bound: counted from any mark, the default of the table outlives the time in which its burst can be pushed.
_MARK_OF_BURST = """
    INSERT INTO marks_by_burst (subject, seq, shard, member, mark) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?
"""
_ALSO_SEEN_OF_BURST = "INSERT INTO marks_by_burst (subject, seq, shard, member, also_seen) VALUES (?, ?, ?, ?, ?)"

_MICROSECONDS = 1_000
"""Microseconds per millisecond. Cassandra counts write timetimestamps in microseconds."""


class CassandraPeople:
    """State of users. Reads and writes use a quorum, so that each read sees all acknowledged writes."""

    def __init__(self, reader: CassandraReader, clock: Clock, *, most_blockers: int = MAX_BLOCKERS) -> None:
        self._reader = reader
        self._clock = clock
        self._most_blockers = most_blockers
        self._ranges = RangeCache()

    async def member(self, user: UserId) -> Member | None:
        if not user:
            return None
        return await self._member_by(user, await self._reader(ACCOUNT, (bucket_of(user), user)))

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        return (await self._viewer(user, member))[0]

    async def _viewer(
        self, user: UserId, member: Member, more_queries: Sequence[tuple[str, Row]] = ()
    ) -> tuple[Viewer, Sequence[Sequence[Any]]]:
        """Return the viewer, and the answers to the additional queries."""
        block, slot = divmod(member, BLOCK_MEMBERS)
        of_shard, of_block = (shard_of(member), member), (block, member)
        (
            follows,
            preferences,
            account_preference_query,
            user_block_query,
            seen,
            marks,
            *answers,
        ) = await self._reader.query_all(
            [
                (_FOLLOWS, (block, [slot, BLOCK_SLOT])),
                (OF_MEMBER, (block, [slot, BLOCK_SLOT])),
                (OF_ONE, of_shard),
                (OF_BOTH, (*of_block, block_query_limit(self._most_blockers))),
                (_SEEN, of_shard),
                (_MARKS, of_block),
                *more_queries,
            ]
        )
        own_preferences, account_preferences, subjects = (
            subject_preferences_of(member, preferences),
            member_account_preferences(member, account_preference_query),
            _follows(slot, follows),
        )
        blocks = await user_blocks_of(self._reader, member, user_block_query, subjects, self._most_blockers)
        viewer = Viewer(
            user=user,
            follows=visible_after_unblock(visible_from(subjects, own_preferences, account_preferences), blocks),
            blocked=blocked_accounts(blocks),
            volume=own_volumes(own_preferences),
            marks=_marks(seen, marks),
            account_preferences=account_preferences,
        )
        return viewer, answers

    async def expected(self, user: UserId) -> Member | None:
        return self._ranges.member_of(user)

    async def open(self, user: UserId, expected: Member | None = None) -> InboxContext | None:
        async with self._reader.deadline():
            if expected is None or not user:
                member = await self.member(user)
            else:
                facts, [account] = await self._facts(user, expected, [(ACCOUNT, (bucket_of(user), user))])
                if (member := await self._member_by(user, account)) == expected:
                    return facts
            return None if member is None else (await self._facts(user, member))[0]

    async def _facts(
        self, user: UserId, member: Member, more_queries: Sequence[tuple[str, Row]] = ()
    ) -> tuple[InboxContext, Sequence[Sequence[Any]]]:
        vip = (CURRENT_FLAGS, (str(Flag.VIP), shard_of(member), [member]))
        viewer, [flags, *answers] = await self._viewer(user, member, [vip, *more_queries])
        return InboxContext(member=member, viewer=viewer, vip=any(flag.is_on for flag in flags)), answers

    async def mark_seen(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        # After an interruption less is marked as seen than was on the page. That is still true, and the caller retries.
        at, lives = to_ms(seen_at), await self._lives(dict.fromkeys(newer))
        await self._reader.query_each(_ALSO_SEEN_OF_BURST, [(*_by_burst(burst, member), True) for burst in lives])
        await self._reader.query_each(
            _ALSO_SEEN, [(*_by_member(burst, member), True, ttl) for burst, ttl in lives.items()]
        )
        await self._reader(_ADVANCE_SEEN, (shard_of(member), member, at, at * _MICROSECONDS))

    async def mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None:
        # Write by burst first: what the inbox shows as dealt with must not alert. After an interruption a burst that
        # the user was about to mark stays silent, and the caller, who has no answer, marks it again.
        lives = await self._lives(dict.fromkeys(bursts))
        timestamps = await self._timestamps(member, list(lives))
        of_burst = [(*_by_burst(burst, member), str(mark), timestamps[burst]) for burst in lives]
        of_member = [(*_by_member(burst, member), str(mark), ttl, timestamps[burst]) for burst, ttl in lives.items()]
        await self._reader.query_each(_MARK_OF_BURST, of_burst)
        await self._reader.query_each(_MARK, of_member)

    async def _member_by(self, user: UserId, accounts: Sequence[Any]) -> Member | None:
        """Return the member from the answer to ACCOUNT, which overrides the ranges."""
        if accounts:
            account = entry_of(accounts[0])
            return None if account.deleted else account.member
        return await self._in_range(user)

    async def _in_range(self, user: UserId) -> Member | None:
        if (known := self._ranges.member_of(user)) is not None:
            return known
        if (parts := split_id(user)) is None or not (rows := await self._reader(RANGE_OF_ID, parts)):
            return None
        if (member := (range_ := id_range(rows)).member_of(parts[1])) is not None:
            self._ranges.remember(range_)
        return member

    async def _timestamps(self, member: Member, bursts: Sequence[BurstKey]) -> dict[BurstKey, int]:
        """Return write timetimestamps above those of the current marks.

        Marks may come from a clock that is ahead of this one, and the user's latest action wins.
        """
        answers = await self._reader.query_each(_MARKED, [_by_member(burst, member) for burst in bursts])
        before = [max((row.at or 0 for row in rows), default=0) for rows in answers]
        now = to_ms(self._clock.now()) * _MICROSECONDS
        return {burst: max(now, at + 1) for burst, at in zip(bursts, before, strict=True)}

    async def _lives(self, bursts: Iterable[BurstKey]) -> dict[BurstKey, int]:
        """Return the remaining life of each burst in whole seconds, without expired bursts, which no user sees.

        A burst that isn't stored gets the longest life that it could have.
        """
        keys, now = list(bursts), self._clock.now()
        opened = await self._reader.query_each(_OPENED, [(str(key.subject), run_of(key.seq), key.seq) for key in keys])
        ends = [expires_at(from_ms(rows[0].opened_at)) if rows else now + ROW_LIFETIME for rows in opened]
        lives = {key: seconds_until(end, now) for key, end in zip(keys, ends, strict=True)}
        return {key: ttl for key, ttl in lives.items() if ttl > 0}


def _by_burst(burst: BurstKey, member: Member) -> tuple[str, int, int, Member]:
    return str(burst.subject), burst.seq, shard_of(member), member


def _by_member(burst: BurstKey, member: Member) -> tuple[int, Member, str, int]:
    return block_of(member), member, str(burst.subject), burst.seq


def _follows(slot: int, rows: Iterable[Any]) -> Mapping[Subject, datetime]:
    """Return the follows. A member's own row overrides the block's, even if it says that the member unfollowed."""
    own: dict[str, int] = {}
    shared: dict[str, int] = {}
    for row in rows:
        if row.slot == slot:
            own[row.subject] = row.visible_from
        elif row.members[slot // 8] >> slot % 8 & 1:
            shared[row.subject] = row.visible_from
    since, unfollowed = shared | own, to_ms(UNFOLLOWED)
    return {Subject.parse(subject): from_ms(at) for subject, at in since.items() if at < unfollowed}


def _marks(seen: Collection[Any], rows: Collection[Any]) -> Marks:
    keys = [(BurstKey(Subject.parse(row.subject), row.seq), row) for row in rows]
    return Marks(
        seen_at=max((from_ms(row.seen_at) for row in seen), default=None),
        also_seen=frozenset(key for key, row in keys if row.also_seen),
        by_burst={key: Mark(row.mark) for key, row in keys if row.mark is not None},
    )
