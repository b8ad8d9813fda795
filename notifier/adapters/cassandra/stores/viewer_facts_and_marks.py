"""Reads the viewer facts of one user; writes marks and seen times.

A user's rows are in partitions of the user's member block and shard. The partitions are queried concurrently.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from notifier.adapters.cassandra.driver.async_queries import AsyncQueries
from notifier.adapters.cassandra.driver.batching import Row
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import ROW_LIFETIME, run_of, seconds_until
from notifier.adapters.cassandra.stores.preferences_and_user_blocks import (
    SELECT_ACCOUNT_PREFERENCES,
    SELECT_PREFERENCES,
    SELECT_USER_BLOCKS,
    member_account_preferences,
    subject_preferences_of,
    user_block_query_limit,
    user_blocks_of,
)
from notifier.adapters.cassandra.stores.user_directory_and_account_flags import (
    SELECT_ACCOUNT,
    SELECT_CURRENT_FLAGS,
    SELECT_RANGE_OF_ID,
    account_of,
    id_range_from,
)
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.account_flags import Flag
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, WHOLE_BLOCK_SLOT, block_of, shard_of
from notifier.domain.audience.follows import UNFOLLOWED
from notifier.domain.audience.user_ids_to_members import IdRangeCache, directory_bucket_of, split_id
from notifier.domain.bursts.burst import expires_at
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.domain.users.account_preferences import visible_from
from notifier.domain.users.subject_preferences import own_volumes
from notifier.domain.users.user_blocks import MAX_BLOCKERS, blocked_accounts, visible_after_unblock
from notifier.domain.users.visibility import Mark, Marks, Viewer
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.viewers_preferences_user_blocks import InboxContext

_SELECT_FOLLOWS = "SELECT slot, subject, visible_from, members FROM follows WHERE block = ? AND slot IN ?"
_SELECT_SEEN = "SELECT seen_at FROM seen WHERE shard = ? AND member = ?"
_SELECT_MARKS = "SELECT subject, seq, mark, also_seen FROM marks WHERE block = ? AND member = ?"
_SELECT_OPENING = "SELECT opened_at FROM bursts WHERE subject = ? AND run = ? AND seq = ?"
# The write timestamp is the seen time itself: the later time wins, regardless of arrival order.
_ADVANCE_SEEN = "INSERT INTO seen (shard, member, seen_at) VALUES (?, ?, ?) USING TIMESTAMP ?"
_SELECT_MARK_TIMESTAMP = (
    "SELECT WRITETIME(mark) AS at FROM marks WHERE block = ? AND member = ? AND subject = ? AND seq = ?"
)
_PUT_MARK = "INSERT INTO marks (block, member, subject, seq, mark) VALUES (?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
# `also_seen` marks a burst that is newer than the seen time, but was on a page that was marked as seen.
_PUT_ALSO_SEEN = "INSERT INTO marks (block, member, subject, seq, also_seen) VALUES (?, ?, ?, ?, ?) USING TTL ?"
# No TTL is bound. The default TTL of the table is longer than the time in which alerts of a burst may be sent.
_PUT_MARK_BY_BURST = """
    INSERT INTO marks_by_burst (subject, seq, shard, member, mark) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?
"""
_PUT_ALSO_SEEN_BY_BURST = "INSERT INTO marks_by_burst (subject, seq, shard, member, also_seen) VALUES (?, ?, ?, ?, ?)"

_MICROSECONDS_PER_MS = 1_000


class CassandraPeople:
    """State of users. Reads and writes use a quorum, so each read sees all acknowledged writes."""

    def __init__(self, async_queries: AsyncQueries, clock: Clock, *, max_blockers: int = MAX_BLOCKERS) -> None:
        self._async_queries = async_queries
        self._clock = clock
        self._max_blockers = max_blockers
        self._id_ranges = IdRangeCache()

    async def member(self, user: UserId) -> Member | None:
        if not user:
            return None
        return await self._member_of_account(
            user, await self._async_queries(SELECT_ACCOUNT, (directory_bucket_of(user), user))
        )

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        return (await self._viewer(user, member))[0]

    async def _viewer(
        self, user: UserId, member: Member, more_queries: Sequence[tuple[str, Row]] = ()
    ) -> tuple[Viewer, Sequence[Sequence[Any]]]:
        block, slot = divmod(member, BLOCK_MEMBERS)
        shard_key, block_key = (shard_of(member), member), (block, member)
        (
            follow_rows,
            preference_rows,
            account_preference_rows,
            user_block_rows,
            seen_rows,
            mark_rows,
            *more_results,
        ) = await self._async_queries.query_all(
            [
                (_SELECT_FOLLOWS, (block, [slot, WHOLE_BLOCK_SLOT])),
                (SELECT_PREFERENCES, (block, [slot, WHOLE_BLOCK_SLOT])),
                (SELECT_ACCOUNT_PREFERENCES, shard_key),
                (SELECT_USER_BLOCKS, (*block_key, user_block_query_limit(self._max_blockers))),
                (_SELECT_SEEN, shard_key),
                (_SELECT_MARKS, block_key),
                *more_queries,
            ]
        )
        subject_preferences = subject_preferences_of(member, preference_rows)
        account_preferences = member_account_preferences(member, account_preference_rows)
        follows = _follows(slot, follow_rows)
        user_blocks = await user_blocks_of(self._async_queries, member, user_block_rows, follows, self._max_blockers)
        viewer = Viewer(
            user=user,
            follows=visible_after_unblock(visible_from(follows, subject_preferences, account_preferences), user_blocks),
            blocked=blocked_accounts(user_blocks),
            volume=own_volumes(subject_preferences),
            marks=_marks(seen_rows, mark_rows),
            account_preferences=account_preferences,
        )
        return viewer, more_results

    async def cached_member(self, user: UserId) -> Member | None:
        return self._id_ranges.member_of(user)

    async def open(self, user: UserId, cached_member: Member | None = None) -> InboxContext | None:
        async with self._async_queries.deadline():
            if cached_member is None or not user:
                member = await self.member(user)
            else:
                # Read the context of the cached member concurrently with the account, which has the valid number.
                account_query = SELECT_ACCOUNT, (directory_bucket_of(user), user)
                context, [account_rows] = await self._context(user, cached_member, [account_query])
                member = await self._member_of_account(user, account_rows)
                if member == cached_member:
                    return context
            return None if member is None else (await self._context(user, member))[0]

    async def _context(
        self, user: UserId, member: Member, more_queries: Sequence[tuple[str, Row]] = ()
    ) -> tuple[InboxContext, Sequence[Sequence[Any]]]:
        vip_query = (SELECT_CURRENT_FLAGS, (str(Flag.VIP), shard_of(member), [member]))
        viewer, [flag_rows, *more_results] = await self._viewer(user, member, [vip_query, *more_queries])
        return InboxContext(member=member, viewer=viewer, is_vip=any(row.is_on for row in flag_rows)), more_results

    async def mark_seen(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        # An interruption may leave only some of these bursts marked as seen. These marks are right, because all of the
        # bursts were on the page. The request has failed, and the client repeats it.
        at, ttls = to_ms(seen_at), await self._mark_ttls(dict.fromkeys(newer))
        await self._async_queries.query_each(
            _PUT_ALSO_SEEN_BY_BURST, [(*_key_by_burst(burst, member), True) for burst in ttls]
        )
        await self._async_queries.query_each(
            _PUT_ALSO_SEEN, [(*_key_by_member(burst, member), True, ttl) for burst, ttl in ttls.items()]
        )
        await self._async_queries(_ADVANCE_SEEN, (shard_of(member), member, at, at * _MICROSECONDS_PER_MS))

    async def mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None:
        # Write the table by burst first: once the inbox shows a burst as marked, no alert of it may be sent. After an
        # interruption between the two tables no alert is sent, but the inbox doesn't show the mark. The request has
        # failed, and the client repeats it.
        ttls = await self._mark_ttls(dict.fromkeys(bursts))
        timestamps = await self._mark_timestamps(member, list(ttls))
        rows_by_burst = [(*_key_by_burst(burst, member), str(mark), timestamps[burst]) for burst in ttls]
        rows_by_member = [
            (*_key_by_member(burst, member), str(mark), ttl, timestamps[burst]) for burst, ttl in ttls.items()
        ]
        await self._async_queries.query_each(_PUT_MARK_BY_BURST, rows_by_burst)
        await self._async_queries.query_each(_PUT_MARK, rows_by_member)

    async def _member_of_account(self, user: UserId, account_rows: Sequence[Any]) -> Member | None:
        """Return the member in the rows of SELECT_ACCOUNT. Without a row, look for an id range with the user's id."""
        if account_rows:
            account = account_of(account_rows[0])
            return None if account.deleted else account.member
        return await self._member_in_id_range(user)

    async def _member_in_id_range(self, user: UserId) -> Member | None:
        if (cached := self._id_ranges.member_of(user)) is not None:
            return cached
        parts = split_id(user)
        if parts is None:
            return None
        rows = await self._async_queries(SELECT_RANGE_OF_ID, parts)
        if not rows:
            return None
        range_ = id_range_from(rows)
        member = range_.member_of(parts[1])
        if member is not None:
            self._id_ranges.remember(range_)
        return member

    async def _mark_timestamps(self, member: Member, bursts: Sequence[BurstKey]) -> dict[BurstKey, int]:
        """Return a write timestamp for the new mark of each burst, above that of its current mark.

        The current mark may come from a process whose clock is ahead of ours, but the user's latest action must win.
        """
        results = await self._async_queries.query_each(
            _SELECT_MARK_TIMESTAMP, [_key_by_member(burst, member) for burst in bursts]
        )
        current_timestamps = [max((row.at or 0 for row in rows), default=0) for rows in results]
        now = to_ms(self._clock.now()) * _MICROSECONDS_PER_MS
        return {burst: max(now, current + 1) for burst, current in zip(bursts, current_timestamps, strict=True)}

    async def _mark_ttls(self, bursts: Iterable[BurstKey]) -> dict[BurstKey, int]:
        """Return the TTL in seconds for the marks of each burst. Expired bursts, which no user sees, are left out.

        If a burst is not stored, its marks get the longest TTL that they could need.
        """
        keys, now = list(bursts), self._clock.now()
        opening_rows = await self._async_queries.query_each(
            _SELECT_OPENING, [(str(key.subject), run_of(key.seq), key.seq) for key in keys]
        )
        expiries = [expires_at(from_ms(rows[0].opened_at)) if rows else now + ROW_LIFETIME for rows in opening_rows]
        ttls = {key: seconds_until(expiry, now) for key, expiry in zip(keys, expiries, strict=True)}
        return {key: ttl for key, ttl in ttls.items() if ttl > 0}


def _key_by_burst(burst: BurstKey, member: Member) -> tuple[str, int, int, Member]:
    return str(burst.subject), burst.seq, shard_of(member), member


def _key_by_member(burst: BurstKey, member: Member) -> tuple[int, Member, str, int]:
    return block_of(member), member, str(burst.subject), burst.seq


def _follows(slot: int, rows: Iterable[Any]) -> Mapping[Subject, datetime]:
    """Return the follows of the member in this slot of the block.

    A row of the member overrides the row of the whole block for the same subject, also if the member has unfollowed.
    """
    by_own_row: dict[str, int] = {}
    by_block_row: dict[str, int] = {}
    for row in rows:
        if row.slot == slot:
            by_own_row[row.subject] = row.visible_from
        elif row.members[slot // 8] >> slot % 8 & 1:
            by_block_row[row.subject] = row.visible_from
    visible_from_ms, unfollowed = by_block_row | by_own_row, to_ms(UNFOLLOWED)
    return {Subject.parse(subject): from_ms(at) for subject, at in visible_from_ms.items() if at < unfollowed}


def _marks(seen_rows: Collection[Any], mark_rows: Collection[Any]) -> Marks:
    row_by_burst = {BurstKey(Subject.parse(row.subject), row.seq): row for row in mark_rows}
    return Marks(
        seen_at=max((from_ms(row.seen_at) for row in seen_rows), default=None),
        also_seen=frozenset(burst for burst, row in row_by_burst.items() if row.also_seen),
        by_burst={burst: Mark(row.mark) for burst, row in row_by_burst.items() if row.mark is not None},
    )
