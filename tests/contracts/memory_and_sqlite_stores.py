"""In-memory and SQLite stores of the core flow, and writers of user facts."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from notifier.adapters.sqlite.async_queries import SqliteReader
from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.audience_snapshots import SqliteAudienceSnapshots
from notifier.adapters.sqlite.stores.burst_change_feed import SqliteBurstChanges, SqliteViewerLapses
from notifier.adapters.sqlite.stores.bursts_and_sequence_heads import SqliteBursts, SqliteHeads, SqliteRecentBursts
from notifier.adapters.sqlite.stores.follows import SqliteFollows
from notifier.adapters.sqlite.stores.inbox_rows import SqliteInbox
from notifier.adapters.sqlite.stores.inbox_timeline import SqliteTimeline
from notifier.adapters.sqlite.stores.ledger_and_deferred_bursts import SqliteClaims, SqliteDeferredBursts, SqliteLedger
from notifier.adapters.sqlite.stores.member_sets_and_active_sets import SqliteMemberSets
from notifier.adapters.sqlite.stores.preferences_and_user_blocks import (
    SqliteAccountPreferences,
    SqlitePreferences,
    SqliteSubjectPreferences,
    SqliteUserBlocks,
)
from notifier.adapters.sqlite.stores.retractions_and_text_erasure import SqliteRetractions
from notifier.adapters.sqlite.stores.send_log_and_suppressions import SqlitePushSuppressions
from notifier.adapters.sqlite.stores.user_directory_and_account_flags import SqliteAccountFlags, SqliteDirectory
from notifier.adapters.sqlite.stores.viewer_facts_and_marks import SqlitePeople
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.audience.follows import UNFOLLOWED
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.subject_preferences import NEVER, PreferenceChange, Volume
from notifier.domain.users.user_blocks import UserBlock
from notifier.ports.audience import AudienceSnapshots, Follows, MemberSets
from notifier.ports.bursts import Bursts, Heads, RecentBursts
from notifier.ports.inbox import InboxStore, Timeline
from notifier.ports.inbox_cache_freshness import BurstChanges, ViewerLapses
from notifier.ports.ledger_claims_deferred_bursts_scan import Claims, DeferredBursts, Ledger
from notifier.ports.moderation_and_retractions import Retractions
from notifier.ports.push import PushSuppressions
from notifier.ports.user_directory_and_account_flags import AccountFlags, Directory
from notifier.ports.viewers_preferences_user_blocks import (
    AccountPreferencesStore,
    People,
    Preferences,
    SubjectPreferences,
    UserBlocks,
)
from tests.support.fakes.activity_member_sets_and_follows import MemoryFollows, MemoryMemberSets
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts, MemoryHeads
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.fakes.inbox_cache_freshness import MemoryBurstChanges, MemoryViewerLapses
from tests.support.fakes.inbox_rows_and_audience_snapshots import (
    MemoryAudienceSnapshots,
    MemoryInboxStore,
    MemoryTimeline,
)
from tests.support.fakes.ledger_claims_deferred_bursts import MemoryClaims, MemoryDeferredBursts, MemoryLedger
from tests.support.fakes.preferences_and_user_blocks import (
    MemoryAccountPreferences,
    MemoryPreferences,
    MemorySubjectPreferences,
    MemoryUserBlocks,
)
from tests.support.fakes.push import MemoryPushSuppressions
from tests.support.fakes.retractions_and_text_erasure import MemoryRetractions
from tests.support.fakes.user_directory_and_account_flags import MemoryAccountFlags, MemoryDirectory
from tests.support.fakes.viewer_facts import MemoryPeople

MOST_BLOCKERS = 20


class Facts(Protocol):
    """Writes user facts into a backend."""

    def follow(self, user: UserId, subject: Subject, visible_from: datetime) -> None: ...

    def mute(self, user: UserId, subject: Subject) -> None: ...

    def unmute(self, user: UserId, subject: Subject, now: datetime) -> None: ...

    def unfollow(self, user: UserId, subject: Subject) -> None: ...

    def block(self, user: UserId, blocked: UserId) -> None: ...

    def unblock(self, user: UserId, blocked: UserId, now: datetime) -> None: ...

    def volume(self, user: UserId, subject: Subject, volume: Volume) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    heads: Heads
    bursts: Bursts
    changes: BurstChanges
    lapses: ViewerLapses
    retractions: Retractions
    recent: RecentBursts
    ledger: Ledger
    deferred_bursts: DeferredBursts
    claims: Claims
    audience_snapshots: AudienceSnapshots
    inbox: InboxStore
    people: People
    timeline: Timeline
    directory: Directory
    flags: AccountFlags
    sets: MemberSets
    follows: Follows
    subject_preferences: SubjectPreferences
    account_preferences: AccountPreferencesStore
    user_blocks: UserBlocks
    preferences: Preferences
    facts: Facts
    push_suppressions: PushSuppressions
    clock: ManualClock
    reopen: "Callable[[], AbstractContextManager[Store]] | None" = None
    """Opens the stores as another process sees them; None for a backend that lives in one process."""
    expires: bool = False
    """Rows and snapshots expire by the engine's own clock, so there is nothing to sweep."""


@contextmanager
def reopened(store: Store) -> Iterator[Store]:
    """Open the stores as another process sees them; yields the same store if its backend lives in one process."""
    if store.reopen is None:
        yield store
    else:
        with store.reopen() as reopened_store:
            yield reopened_store


@contextmanager
def memory_store(folder: Path, clock: ManualClock) -> Iterator[Store]:
    bursts, claims, audience_snapshots, directory = (
        MemoryBursts(),
        MemoryClaims(),
        MemoryAudienceSnapshots(clock),
        MemoryDirectory(),
    )
    inbox, sets = MemoryInboxStore(audience_snapshots), MemoryMemberSets(directory)
    flags, ledger = MemoryAccountFlags(), MemoryLedger(claims)
    people = MemoryPeople(directory, MOST_BLOCKERS, flags)
    yield Store(
        heads=MemoryHeads(),
        bursts=bursts,
        changes=MemoryBurstChanges(bursts),
        lapses=MemoryViewerLapses(bursts),
        retractions=MemoryRetractions(bursts),
        recent=bursts,
        ledger=ledger,
        deferred_bursts=MemoryDeferredBursts(ledger),
        claims=claims,
        audience_snapshots=audience_snapshots,
        inbox=inbox,
        people=people,
        timeline=MemoryTimeline(bursts, inbox),
        directory=directory,
        flags=flags,
        sets=sets,
        follows=MemoryFollows(people),
        subject_preferences=MemorySubjectPreferences(people),
        account_preferences=MemoryAccountPreferences(people),
        user_blocks=MemoryUserBlocks(people),
        preferences=MemoryPreferences(people),
        facts=people,
        push_suppressions=MemoryPushSuppressions(people, directory),
        clock=clock,
    )


@contextmanager
def sqlite_store(folder: Path, clock: ManualClock) -> Iterator[Store]:
    files, reader = Files.at(folder), SqliteReader()
    files.migrate()
    yield Store(
        heads=SqliteHeads(files.core),
        bursts=SqliteBursts(files.core),
        changes=SqliteBurstChanges(files.core, reader),
        lapses=SqliteViewerLapses(files.core),
        retractions=SqliteRetractions(files.core),
        recent=SqliteRecentBursts(files.core),
        ledger=SqliteLedger(files.core),
        deferred_bursts=SqliteDeferredBursts(files.core),
        claims=SqliteClaims(files.core),
        audience_snapshots=SqliteAudienceSnapshots(files.inboxes, clock),
        inbox=SqliteInbox(files.inboxes),
        people=SqlitePeople(files.core, reader, max_blockers=MOST_BLOCKERS),
        timeline=SqliteTimeline(files.core, files.inboxes, reader),
        directory=SqliteDirectory(files.core),
        flags=SqliteAccountFlags(files.core),
        sets=SqliteMemberSets(files.core),
        follows=SqliteFollows(files.core),
        subject_preferences=SqliteSubjectPreferences(files.core),
        account_preferences=SqliteAccountPreferences(files.core),
        user_blocks=SqliteUserBlocks(files.core),
        preferences=SqlitePreferences(files.core, reader),
        facts=SqliteFacts(files.core),
        push_suppressions=SqlitePushSuppressions(files.core),
        clock=clock,
        reopen=partial(sqlite_store, folder, clock),
    )
    reader.close()
    files.close()


def user_block_change(
    directory: Directory, user: UserId, blocked: UserId, *, until: datetime, sequence: int
) -> UserBlock:
    member_of = directory.assign_numbers([user, blocked])
    return UserBlock(
        blocker=user,
        blocker_member=member_of[user],
        blocked=blocked,
        blocked_member=member_of[blocked],
        until=until,
        sequence=sequence,
    )


class PreferenceWriter:
    """Writes preferences and user blocks, each with a newer time or sequence number than the current one."""

    def __init__(self, directory: Directory, subject_preferences: SubjectPreferences, user_blocks: UserBlocks) -> None:
        self._directory = directory
        self._subject_preferences = subject_preferences
        self._user_blocks = user_blocks
        self._last_sequence = 0

    def mute(self, user: UserId, subject: Subject) -> None:
        self._write_preference(user, subject, visible_from=NEVER)

    def unmute(self, user: UserId, subject: Subject, now: datetime) -> None:
        self._write_preference(user, subject, visible_from=now)

    def volume(self, user: UserId, subject: Subject, volume: Volume) -> None:
        self._write_preference(user, subject, volume=volume)

    def block(self, user: UserId, blocked: UserId) -> None:
        self.unblock(user, blocked, NEVER)

    def unblock(self, user: UserId, blocked: UserId, now: datetime) -> None:
        self._last_sequence += 1
        change = user_block_change(self._directory, user, blocked, until=now, sequence=self._last_sequence)
        self._user_blocks.write([change])

    def _write_preference(self, user: UserId, subject: Subject, **change: Any) -> None:
        member = self._member(user)
        before = self._subject_preferences.read_own([(subject, member)]).get((subject, member))
        at = START if before is None else before.at + timedelta(milliseconds=1)
        self._subject_preferences.write([PreferenceChange(subject=subject, member=member, at=at, **change)])

    def _member(self, user: UserId) -> Member:
        return self._directory.accounts([user])[user].member


class SqliteFacts(PreferenceWriter):
    """Writes user facts. Follows are written directly into the table, so a test needs no sequence numbers."""

    def __init__(self, core: Database) -> None:
        super().__init__(SqliteDirectory(core), SqliteSubjectPreferences(core), SqliteUserBlocks(core))
        self._core = core

    def follow(self, user: UserId, subject: Subject, visible_from: datetime) -> None:
        block, slot = divmod(self._member(user), BLOCK_MEMBERS)
        row = (block, slot, str(subject), to_ms(visible_from))
        self._put("INSERT OR REPLACE INTO follows (block, slot, subject, visible_from) VALUES (?, ?, ?, ?)", *row)

    def unfollow(self, user: UserId, subject: Subject) -> None:
        self.follow(user, subject, UNFOLLOWED)

    def _put(self, sql: str, *row: object) -> None:
        with self._core.write() as c:
            c.execute(sql, row)
