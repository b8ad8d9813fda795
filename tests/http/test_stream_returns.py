"""Who goes and comes back, in the middle of a look at the store, is told everything from then on."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from notifier.domain.ids import Member, UserId
from notifier.domain.users.visibility import Viewer
from tests.http.listening_client import Studio, events, on_air
from tests.http.test_stream_marked import first as newest
from tests.http.test_stream_marked import mark
from tests.http.test_stream_resumed import last_id
from tests.support.fakes.people import MemoryPeople
from tests.support.http_app import House


@dataclass(slots=True)
class Slow:
    """A store that holds back its answer about a viewer, so many times."""

    read: Callable[[UserId, Member], Awaitable[Viewer]]
    held: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        found = await self.read(user, member)
        if self.held:
            self.held -= 1
            self.asked.set()
            await self.answers.wait()
        return found


class SlowPeople(MemoryPeople):
    def __init__(self, house: House) -> None:
        self.__dict__ = house.people.__dict__
        self.slow = Slow(super().viewer)

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        return await self.slow.viewer(user, member)


def slow(studio: Studio) -> Slow:
    people = SlowPeople(studio.house)
    studio.hub.hearers.tab = replace(studio.hub.hearers.tab, people=people)
    return people.slow


async def looked_for_and_gone(studio: Studio) -> Slow:
    """Who had one stream has left it, and the look that a mark of theirs began goes on."""
    await studio.mention()
    first, people = await studio.listen("u1"), slow(studio)
    await first.hear()
    people.held = 1
    await mark(studio, await newest(studio), "read")
    await people.asked.wait()
    await first.leave()
    return people


def test_a_look_that_ends_after_its_stream_takes_nothing_from_the_next_stream() -> None:
    async def play(studio: Studio) -> None:
        people = await looked_for_and_gone(studio)
        second = await studio.listen("u1")
        await second.hear()
        people.answers.set()
        await studio.quiet()
        await studio.mention("bob")
        assert events(await second.hear()) == ["group"]

    on_air(play)


def test_a_look_that_ends_after_its_stream_leaves_nobody_behind() -> None:
    async def play(studio: Studio) -> None:
        people = await looked_for_and_gone(studio)
        people.answers.set()
        await studio.quiet()
        assert not studio.hub.hearers.following

    on_air(play)


def test_what_opened_while_one_was_away_and_grows_as_one_comes_back_is_a_row() -> None:
    async def play(studio: Studio) -> None:
        last, people = await last_id(studio, "u1"), slow(studio)
        other = await studio.listen("u1", last)  # another tab of the same person
        await other.hear()
        await studio.mention("ada")
        await studio.settle()
        people.held = 1
        coming = asyncio.create_task(studio.listen("u1", last))
        await people.asked.wait()
        await studio.mention("bob")
        people.answers.set()
        said = await (await coming).hear(2)
        assert events(said) == ["row", "count"]

    on_air(play)
