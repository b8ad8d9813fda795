"""Preferences: what a person asks to be changed is in the log, and then in the person's own rows."""

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
    """The write path's log, which blocks, as an asynchronous caller sees it."""

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
        """All that the person said something of. Raises NotFound for a user that doesn't exist, StoreUnavailable."""
        return await self.preferences.read(await self._member(user))

    async def change(self, user: UserId, subject: Subject, wish: Wish) -> Want:
        """What stands from now on, for the person's own tab at the latest when the indexer has heard of it. Raises
        NotFound for a user or an account that doesn't exist, StoreUnavailable, LogUnavailable and Full: then it may
        still come to stand."""
        member = await self._member(user)
        known, overall = await self.preferences.read(member), await self.preferences.overall(member)
        if subject not in known:  # one that was deleted since may still be unmuted
            await self._member(subject.owner)
        before = known.get(subject, Want(subject=subject, member=member, at=ALWAYS))
        word = wish.heard(before, self.clock.now(), overall.volume, overall.default_from)
        if (after := before.after(word)) == replace(before, at=after.at):
            return before
        # The log first: whoever dies in between has left the word where the indexer finds it, who writes the row, too.
        # The other way round the row would stand, and the bitmaps would never hear of it.
        await self.log.append(record(word))
        with suppress(StoreUnavailable):  # what is in the log is accepted
            await self.preferences.write(word)
        return after

    async def overall(self, user: UserId) -> Overall:
        """What the person says of everything. Raises as `wants` does."""
        return await self.preferences.overall(await self._member(user))

    async def arrange(self, user: UserId, wish: OverallWish) -> Overall:
        """The same of everything: what stands from now on, in the same order and with the same errors."""
        member = await self._member(user)
        before = await self.preferences.overall(member)
        word = wish.heard(member, before, self.clock.now())
        if (after := before.after(word)) == replace(before, at=after.at):
            return before
        await self.log.append(overall_record(word))
        with suppress(StoreUnavailable):
            await self.preferences.say(word)
        return after

    async def _member(self, user: UserId) -> Member:
        if (member := await self.people.member(user)) is None:
            raise NotFound(f"The user is {user}.")
        return member


def record(word: Word) -> Record:
    return Record(stream=topics.FOLLOWS, key=word.subject.owner, value=pack(GraphRecord(word=word)))


def overall_record(word: OverallWord) -> Record:
    return Record(stream=topics.FOLLOWS, key=shard_key(shard_of(word.member)), value=pack(GraphRecord(overall=word)))
