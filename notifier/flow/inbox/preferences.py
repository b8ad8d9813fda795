"""Edit preferences: write each change to the log, then to the user's own rows."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.upstream.graph_changes import GraphRecord, shard_key
from notifier.domain.users.account_preferences import Overall, OverallWish, OverallWord
from notifier.domain.users.subject_preferences import ALWAYS, Want, Wish, Word
from notifier.ports.coordination import Clock
from notifier.ports.event_log import Record
from notifier.ports.users import People, Preferences


class RecordLog(Protocol):
    """Asynchronous view of the write path's log, which blocks."""

    async def append(self, record: Record) -> None:
        """Return once the record is durable. Raises LogUnavailable and Full."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceEditor:
    people: People
    preferences: Preferences
    clock: Clock
    log: RecordLog

    async def wants(self, user: UserId) -> Mapping[Subject, Want]:
        """Return all subject preferences that the user has set.

        Raises NotFound for a user that does not exist, and StoreUnavailable.
        """
        return await self.preferences.read(await self._member(user))

    async def change(self, user: UserId, subject: Subject, wish: Wish) -> Want:
        """Apply a patch to a subject preference, and return the result.

        The user's own inbox shows it at the latest when the indexer has processed the change. Raises NotFound for a
        user or an account that does not exist, and StoreUnavailable: then nothing is changed. Raises LogUnavailable and
        Full: then the change may still take effect.
        """
        member = await self._member(user)
        known, overall = await self.preferences.read(member), await self.preferences.overall(member)
        if subject not in known:  # an account that was deleted since may still be unmuted
            await self._member(subject.owner)
        before = known.get(subject, Want(subject=subject, member=member, at=ALWAYS))
        change = wish.heard(before, self.clock.now(), overall.volume, overall.default_from)
        if (after := before.after(change)) == replace(before, at=after.at):
            return before
        # Write the log first: after a crash in between, the indexer finds the change there and writes the row, too. In
        # the reverse order the row would exist, but the bitmaps would never get the change.
        await self.log.append(record(change))
        with suppress(StoreUnavailable):  # a change in the log is accepted
            await self.preferences.write(change)
        return after

    async def overall(self, user: UserId) -> Overall:
        """Return the user's account preferences. Raises as `wants` does."""
        return await self.preferences.overall(await self._member(user))

    async def arrange(self, user: UserId, wish: OverallWish) -> Overall:
        """Apply a patch to the account preferences, and return the result.

        Order of writes and errors are those of `change`.
        """
        member = await self._member(user)
        before = await self.preferences.overall(member)
        change = wish.heard(member, before, self.clock.now())
        if (after := before.after(change)) == replace(before, at=after.at):
            return before
        await self.log.append(overall_record(change))
        with suppress(StoreUnavailable):
            await self.preferences.say(change)
        return after

    async def _member(self, user: UserId) -> Member:
        if (member := await self.people.member(user)) is None:
            raise NotFound(f"The user is {user}.")
        return member


def record(word: Word) -> Record:
    return Record(stream=topics.FOLLOWS, key=word.subject.owner, value=pack(GraphRecord(word=word)))


def overall_record(word: OverallWord) -> Record:
    return Record(stream=topics.FOLLOWS, key=shard_key(shard_of(word.member)), value=pack(GraphRecord(overall=word)))
