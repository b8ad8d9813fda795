"""Reads and writes one user's state in core.db.

Each read is one consistent snapshot.
"""

import sqlite3
from collections.abc import Collection, Mapping
from datetime import datetime

from notifier.adapters.sqlite.async_queries import SqliteReader, SqliteWriter
from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.adapters.sqlite.stores.preferences_and_user_blocks import (
    member_account_preferences,
    subject_preferences_of,
    user_blocks_of,
)
from notifier.adapters.sqlite.stores.user_directory_and_account_flags import accounts_of, id_range_of
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.account_flags import Flag
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, WHOLE_BLOCK_SLOT, shard_of
from notifier.domain.audience.follows import UNFOLLOWED
from notifier.domain.audience.user_ids_to_members import IdRangeCache
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.domain.users.account_preferences import visible_from
from notifier.domain.users.subject_preferences import own_volumes
from notifier.domain.users.user_blocks import MAX_BLOCKERS, blocked_accounts, visible_after_unblock
from notifier.domain.users.visibility import Mark, Marks, Viewer
from notifier.ports.viewers_preferences_user_blocks import InboxContext

_SELECT_FOLLOWS = "SELECT slot, subject, visible_from, members FROM follows WHERE block = ? AND slot IN (?, ?)"
_SELECT_VIP = "SELECT 1 FROM account_flags WHERE flag = ? AND shard = ? AND member = ? AND is_on"
_SELECT_SEEN = "SELECT seen_at FROM seen WHERE member = ?"
_SELECT_ALSO_SEEN = "SELECT subject, seq FROM also_seen WHERE member = ?"
_SELECT_MARKS = "SELECT subject, seq, mark FROM marks WHERE member = ?"
_ADVANCE_SEEN = load_statement("advance_seen_time")
_INSERT_ALSO_SEEN = "INSERT OR IGNORE INTO also_seen (member, subject, seq) VALUES (?, ?, ?)"
_DELETE_ALSO_SEEN = load_statement("delete_also_seen_before_seen_time")
_PUT_MARK = "INSERT OR REPLACE INTO marks (member, subject, seq, mark) VALUES (?, ?, ?, ?)"


class SqlitePeople:
    def __init__(
        self,
        db: Database,
        reader: SqliteReader | None = None,
        writer: SqliteWriter | None = None,
        *,
        max_blockers: int = MAX_BLOCKERS,
    ) -> None:
        self._db = db
        self._max_blockers = max_blockers
        self._reader = reader or SqliteReader()
        self._writer = writer or SqliteWriter()
        self._ranges = IdRangeCache()

    async def member(self, user: UserId) -> Member | None:
        return await self._reader(self._member, user)

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        return await self._reader(self._viewer, user, member)

    async def cached_member(self, user: UserId) -> Member | None:
        return self._ranges.member_of(user)

    async def open(self, user: UserId, cached_member: Member | None = None) -> InboxContext | None:
        return await self._reader(self._open, user)

    async def mark_seen(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        await self._writer(self._mark_seen, member, seen_at, newer)

    async def mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None:
        await self._writer(self._mark, member, bursts, mark)

    def _member(self, user: UserId) -> Member | None:
        with self._db.read() as c:
            account = accounts_of(c, [user]).get(user)
            if account is not None and self._ranges.member_of(user) is None and (range_ := id_range_of(c, user)):
                self._ranges.remember(range_)
        return None if account is None or account.deleted else account.member

    def _open(self, user: UserId) -> InboxContext | None:
        with self._db.read() as c:  # nested reads are part of the same snapshot
            member = self._member(user)
            if member is None:
                return None
            vip = c.execute(_SELECT_VIP, (Flag.VIP, shard_of(member), member)).fetchone() is not None
            return InboxContext(member=member, viewer=self._viewer(user, member), is_vip=vip)

    def _viewer(self, user: UserId, member: Member) -> Viewer:
        with self._db.read() as c:
            follows = _follows(c, member)
            subject_preferences = subject_preferences_of(c, member)
            account_preferences = member_account_preferences(c, member)
            user_block_ends = user_blocks_of(c, member, follows, self._max_blockers)
            return Viewer(
                user=user,
                follows=visible_after_unblock(
                    visible_from(follows, subject_preferences, account_preferences), user_block_ends
                ),
                blocked=blocked_accounts(user_block_ends),
                volume=own_volumes(subject_preferences),
                marks=_marks(c, member),
                account_preferences=account_preferences,
            )

    def _mark_seen(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        with self._db.write() as c:
            c.execute(_ADVANCE_SEEN, (member, to_ms(seen_at)))
            c.executemany(_INSERT_ALSO_SEEN, [(member, str(burst.subject), burst.seq) for burst in newer])
            c.execute(_DELETE_ALSO_SEEN, {"member": member})

    def _mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None:
        with self._db.write() as c:
            c.executemany(_PUT_MARK, [(member, str(burst.subject), burst.seq, mark) for burst in bursts])


def _follows(c: sqlite3.Connection, member: Member) -> Mapping[Subject, datetime]:
    """Return the follows. A member's own row, even of an unfollow, overrides the block row."""
    block, slot = divmod(member, BLOCK_MEMBERS)
    by_own_row: dict[str, int] = {}
    by_block_row: dict[str, int] = {}
    for row_slot, subject, at, members in c.execute(_SELECT_FOLLOWS, (block, slot, WHOLE_BLOCK_SLOT)):
        if row_slot == slot:
            by_own_row[subject] = at
        elif members[slot // 8] >> slot % 8 & 1:
            by_block_row[subject] = at
    visible_from_by_subject, unfollowed = by_block_row | by_own_row, to_ms(UNFOLLOWED)
    return {Subject.parse(subject): from_ms(at) for subject, at in visible_from_by_subject.items() if at < unfollowed}


def _marks(c: sqlite3.Connection, member: Member) -> Marks:
    seen = c.execute(_SELECT_SEEN, (member,)).fetchone()
    return Marks(
        seen_at=from_ms(seen[0]) if seen else None,
        also_seen=frozenset(
            BurstKey(Subject.parse(subject), seq) for subject, seq in c.execute(_SELECT_ALSO_SEEN, (member,))
        ),
        by_burst={BurstKey(Subject.parse(s), seq): Mark(mark) for s, seq, mark in c.execute(_SELECT_MARKS, (member,))},
    )
