"""Imports of accounts and preferences; `Import` runs and resumes every import.

An import first reads all rows, and stores keys for the remaining work, in sorted runs. Then it processes the sorted
keys chunk by chunk. After an interruption the import resumes. The runs record how far the source was read, and a stored
position records how far the keys were processed. Every step is idempotent.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Generic, Protocol, TypeVar

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.account_flags import AccountRecord, Flag
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.audience.import_keys_and_follow_rows import (
    ACCOUNT_WIDE,
    ImportKeys,
    rebuild_keys,
    shards_by_account,
)
from notifier.domain.audience.user_ids_to_members import IdRange, consecutive_runs
from notifier.domain.ids import Member, UserId
from notifier.domain.upstream.graph_stream_records import GraphRecord, rebuild_requests, shard_batches, shard_key
from notifier.domain.users.account_preferences import (
    DEFAULT_ACCOUNT_PREFERENCES,
    AccountPreferences,
    AccountPreferencesChange,
)
from notifier.domain.users.import_rows import (
    AccountRow,
    PreferenceRow,
    account_change_as_if_made_now,
    subject_change_as_if_made_now,
)
from notifier.domain.users.subject_preferences import ALWAYS, PreferenceChange, SubjectPreference, Volume
from notifier.flow.accounts.account_indexer import DIRECTORY_FLAGS, sync_directory_entries
from notifier.ports.event_log_and_dead_letters import EventLog, Record
from notifier.ports.import_batches_and_key_sort import ImportBatch, KeySort, SourceBatch
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.user_directory_and_account_flags import MIN_LEASED_NUMBERS, AccountFlags, Directory
from notifier.ports.viewers_preferences_user_blocks import AccountPreferencesStore, SubjectPreferences

Advance = Callable[[int], object]
"""Callback for progress, called with the number of rows or keys finished since the last call."""
S = TypeVar("S", bound=SourceBatch)
S_contra = TypeVar("S_contra", bound=SourceBatch, contravariant=True)


class ImportKind(Protocol[S_contra]):
    """Work of one kind of import. Both methods are idempotent, because they are repeated after an interruption."""

    def read(self, rows: S_contra) -> ImportKeys:
        """Process the rows; return keys for the work that remains to be done after all rows have been read."""
        ...

    def steps(self, keys: ImportKeys) -> Iterable[Callable[[], None]]:
        """Yield steps that do the work of these keys.

        The keys are sorted. If they are follows, they include all or none of an account's followers in a block.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Generic[S]):
    kind: ImportKind[S]
    key_sort: KeySort
    """Sorts the keys, and stores how far the import has come."""
    retry: Callable[[Callable[[], None]], None] | None = None
    """Retries a step during an outage. Without it an outage ends the import."""

    def read(self, source: Iterable[S], advance: Advance = lambda _: None) -> None:
        """Read the rows of the source, which must start after the rows that an earlier attempt has read."""
        for rows in source:
            self._attempt(partial(self._read, rows))
            advance(len(rows))

    def write(self, advance: Advance = lambda _: None) -> None:
        for keys, position in self.key_sort.remaining_chunks():
            for step in self.kind.steps(keys):
                self._attempt(step)
            self.key_sort.mark_done(position)
            advance(len(keys))

    def _attempt(self, step: Callable[[], None]) -> None:
        if self.retry is None:
            step()
        else:
            self.retry(step)

    def _read(self, rows: S) -> None:
        # Store the run after processing its rows: a crash between the two only repeats the rows.
        self.key_sort.add(self.kind.read(rows), rows.rows_read)


# Account import: while reading, it writes member numbers, flags and directory entries. Then it requests VIP bitmaps.

ACCOUNTS_PER_BATCH = 4_096
"""Maximum number of accounts whose directory entries are updated in one transaction. Other writers write between
transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountImport:
    directory: Directory
    flags: AccountFlags
    log: EventLog
    enrols_ranges: bool
    """Whether to store consecutive ids as one directory entry.

    Use it only while no other process assigns member numbers.
    """

    def read(self, rows: ImportBatch[AccountRow]) -> ImportKeys:
        """Write the accounts; return the keys of the shards whose VIP flags the rows set or clear."""
        members = self._assign_numbers(dict.fromkeys(row.user for row in rows.rows))
        self.flags.write(flag for row in rows.rows for flag in row.flag_rows(members[row.user]))
        users = [row.user for row in rows.rows if not row.flags.keys().isdisjoint(DIRECTORY_FLAGS)]
        for first in range(0, len(users), ACCOUNTS_PER_BATCH):
            sync_directory_entries(
                self.directory, self.flags, {user: members[user] for user in users[first : first + ACCOUNTS_PER_BATCH]}
            )
        return rebuild_keys((ACCOUNT_WIDE, shard_of(members[row.user])) for row in rows.rows if Flag.VIP in row.flags)

    def steps(self, keys: ImportKeys) -> Iterable[Callable[[], None]]:
        """Yield steps that request the VIP bitmaps. The account indexer makes them from the rows written before."""
        return (partial(self._request_bitmaps, shards[ACCOUNT_WIDE]) for shards in shards_by_account(keys))

    def _request_bitmaps(self, shards: Iterable[int]) -> None:
        requests = [AccountRecord(rebuild_shards=chunk, imported=True) for chunk in shard_batches(shards)]
        self.log.append(
            [
                Record(stream=topics.USERS, key=shard_key(record.rebuild_shards[0]), value=pack(record))
                for record in requests
            ]
        )

    def _assign_numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        if self.enrols_ranges:
            known_accounts = self.directory.accounts(users)
            for prefix, first, count in consecutive_runs(
                (user for user in users if user not in known_accounts), MIN_LEASED_NUMBERS
            ):
                # After a crash between the next two calls, the leased numbers stay unused.
                first_member = self.directory.lease(count)
                self.directory.enrol_range(IdRange(prefix=prefix, first=first, count=count, first_member=first_member))
        return self.directory.assign_numbers(users)


# Preference import: while reading, it writes the preferences. Then it requests their bitmaps.

T = TypeVar("T")

PREFERENCES_PER_BATCH = 4_096
"""Maximum number of changes written at once. Other writers write between batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceImport:
    directory: Directory
    subject_preferences: SubjectPreferences
    account_preferences: AccountPreferencesStore
    log: EventLog
    clock: Clock

    def read(self, rows: ImportBatch[PreferenceRow]) -> ImportKeys:
        """Store each row's preference, unless the user has set that preference. Return the keys of changed shards.

        Unknown accounts get a member number.
        """
        users = dict.fromkeys(chain.from_iterable((row.user, row.account) for row in rows.rows))
        members = self.directory.assign_numbers([user for user in users if user is not None])
        changes = [change for row in rows.rows if (change := row.preference_change(members[row.user]))]
        account_changes = [
            account_change for row in rows.rows if (account_change := row.account_preferences_change(members[row.user]))
        ]
        # A retry after a crash finds the preferences that were written before, and does not move `visible_from` again.
        for batch in _batches(changes):
            self.subject_preferences.write(self._as_if_changed_now(batch))
        for account_batch in _batches(account_changes):
            self.account_preferences.write(self._account_changes_as_if_now(account_batch))
        subject_shards = ((members[change.subject.owner], shard_of(change.member)) for change in changes)
        account_wide_shards = ((ACCOUNT_WIDE, shard_of(change.member)) for change in account_changes)
        return rebuild_keys(chain(subject_shards, account_wide_shards))

    def _as_if_changed_now(self, changes: Sequence[PreferenceChange]) -> Sequence[PreferenceChange]:
        """Apply `subject_change_as_if_made_now` to changes that concern a digest. Return all changes."""
        account_preferences = self.account_preferences.read_current(
            {change.member for change in changes if change.volume}
        )
        digest_changes = [
            change
            for change in changes
            if Volume.DIGEST in (change.volume, _preferences_of(account_preferences, change.member).volume)
        ]
        current_preferences = {
            (change.subject, change.member): SubjectPreference(subject=change.subject, member=change.member, at=ALWAYS)
            for change in digest_changes
        }
        current_preferences |= self.subject_preferences.read_own(current_preferences)
        now = self.clock.now()
        return [
            subject_change_as_if_made_now(
                change, current_preferences[pair], _preferences_of(account_preferences, change.member), now
            )
            if (pair := (change.subject, change.member)) in current_preferences
            else change
            for change in changes
        ]

    def _account_changes_as_if_now(
        self, changes: Sequence[AccountPreferencesChange]
    ) -> Sequence[AccountPreferencesChange]:
        before = self.account_preferences.read_current({change.member for change in changes if change.volume})
        now = self.clock.now()
        return [
            account_change_as_if_made_now(change, _preferences_of(before, change.member), now) for change in changes
        ]

    def steps(self, keys: ImportKeys) -> Iterable[Callable[[], None]]:
        """Yield steps that request the bitmaps. The graph indexer makes them from the rows written before."""
        return (partial(self._request_bitmaps, shards) for shards in shards_by_account(keys))

    def _request_bitmaps(self, shards: Mapping[Member, Sequence[int]]) -> None:
        users = self.directory.users([account for account in shards if account != ACCOUNT_WIDE])
        rebuilds = [
            rebuild
            for account, user in users.items()
            for rebuild in rebuild_requests(user, shards[account], has_imported_preferences=True)
        ]
        subject_requests = [(rebuild.followed, GraphRecord(rebuild=rebuild)) for rebuild in rebuilds]
        account_wide_requests = [
            (shard_key(s), GraphRecord(account_wide_shard=s, imported=True)) for s in shards.get(ACCOUNT_WIDE, ())
        ]
        self.log.append(
            [
                Record(stream=topics.FOLLOWS, key=key, value=pack(record))
                for key, record in (*subject_requests, *account_wide_requests)
            ]
        )


def _preferences_of(preferences: Mapping[Member, AccountPreferences], member: Member) -> AccountPreferences:
    return preferences.get(member, DEFAULT_ACCOUNT_PREFERENCES)


def _batches(changes: Sequence[T]) -> Iterable[Sequence[T]]:
    return (changes[first : first + PREFERENCES_PER_BATCH] for first in range(0, len(changes), PREFERENCES_PER_BATCH))
