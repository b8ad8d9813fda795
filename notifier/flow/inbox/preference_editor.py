"""Edit preferences: write each change to the log, then to the store."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.errors import OUTAGES, NotFound
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.upstream.graph_stream_records import GraphRecord, shard_key
from notifier.domain.users.account_preferences import (
    AccountPreferences,
    AccountPreferencesChange,
    AccountPreferencesPatch,
)
from notifier.domain.users.subject_preferences import ALWAYS, PreferenceChange, PreferencePatch, SubjectPreference
from notifier.ports.event_log_and_dead_letters import Record
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.viewers_preferences_user_blocks import People, Preferences


class RecordLog(Protocol):
    """Asynchronous access to the event log. The calls of the port itself block."""

    async def append(self, record: Record) -> None:
        """Return once the record is durable. Raises LogUnavailable and DiskFull."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceEditor:
    people: People
    preferences: Preferences
    clock: Clock
    log: RecordLog

    async def subject_preferences(self, user: UserId) -> Mapping[Subject, SubjectPreference]:
        return await self.preferences.read(await self._member(user))

    async def change(self, user: UserId, subject: Subject, patch: PreferencePatch) -> SubjectPreference:
        """Apply a patch to a subject preference, and return the result.

        The user's own inbox usually shows the change at once, and at the latest when the indexer has processed it.
        After NotFound (for the user or the subject's account) and StoreUnavailable nothing is changed. After
        LogUnavailable and DiskFull the change may still take effect.
        """
        member = await self._member(user)
        preferences, account_preferences = (
            await self.preferences.read(member),
            await self.preferences.read_account(member),
        )
        # Check the account only for a new preference: the account of an existing one may have been deleted since.
        if subject not in preferences:
            await self._member(subject.owner)
        before = preferences.get(subject, SubjectPreference(subject=subject, member=member, at=ALWAYS))
        change = patch.change_for(
            before, self.clock.now(), account_preferences.volume, account_preferences.default_from
        )
        if (after := before.apply(change)) == replace(before, at=after.at):
            return before
        # Write the log first. After a crash in between, the indexer reads the change there, and writes the row and the
        # bitmaps. In the opposite order, a crash would leave bitmaps that never get the change.
        await self.log.append(preference_record(change))
        with suppress(*OUTAGES):  # the change is accepted, because it is in the log
            await self.preferences.write(change)
        return after

    async def account_preferences(self, user: UserId) -> AccountPreferences:
        return await self.preferences.read_account(await self._member(user))

    async def change_account_preferences(self, user: UserId, patch: AccountPreferencesPatch) -> AccountPreferences:
        """Apply a patch to the account preferences, as `change` does, and return the result."""
        member = await self._member(user)
        before = await self.preferences.read_account(member)
        change = patch.change_for(member, before, self.clock.now())
        if (after := before.apply(change)) == replace(before, at=after.at):
            return before
        await self.log.append(account_preferences_record(change))
        with suppress(*OUTAGES):
            await self.preferences.write_account(change)
        return after

    async def _member(self, user: UserId) -> Member:
        if (member := await self.people.member(user)) is None:
            raise NotFound(f"Unknown user: {user}.")
        return member


def preference_record(change: PreferenceChange) -> Record:
    return Record(stream=topics.FOLLOWS, key=change.subject.owner, value=pack(GraphRecord(preference_change=change)))


def account_preferences_record(change: AccountPreferencesChange) -> Record:
    return Record(
        stream=topics.FOLLOWS,
        key=shard_key(shard_of(change.member)),
        value=pack(GraphRecord(account_preferences_change=change)),
    )
