"""Who goes and comes back, in the middle of a look at the store, is told everything from then on."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from notifier.domain.ids import Member, UserId
from notifier.domain.users.visibility import Viewer
from tests.http.listening_client import LiveHouse, event_types, run_live
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
            self.requested.set()
            await self.released.wait()
        return found


class SlowPeople(MemoryPeople):
    def __init__(self, house: House) -> None:
        self.__dict__ = house.people.__dict__
        self.slow = Slow(super().viewer)

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        return await self.slow.viewer(user, member)


def slow(live: LiveHouse) -> Slow:
    people = SlowPeople(live.house)
    live.hub.hearers.tab = replace(live.hub.hearers.tab, people=people)
    return people.slow


async def looked_for_and_gone(live: LiveHouse) -> Slow:
    """Who had one stream has left it, and the look that a mark of theirs began goes on."""
    await live.mention()
    first, people = await live.listen("u1"), slow(live)
    await first.next_events()
    people.held = 1
    await mark(live, await newest(live), "read")
    await people.requested.wait()
    await first.disconnect()
    return people


def test_a_look_that_ends_after_its_stream_takes_nothing_from_the_next_stream() -> None:
    async def scenario(live: LiveHouse) -> None:
        people = await looked_for_and_gone(live)
        second = await live.listen("u1")
        await second.next_events()
        people.released.set()
        await live.drain()
        await live.mention("bob")
        assert event_types(await second.next_events()) == ["group"]

    run_live(scenario)


def test_a_look_that_ends_after_its_stream_leaves_nobody_behind() -> None:
    async def scenario(live: LiveHouse) -> None:
        people = await looked_for_and_gone(live)
        people.released.set()
        await live.drain()
        assert not live.hub.hearers.following

    run_live(scenario)


def test_what_opened_while_one_was_away_and_grows_as_one_comes_back_is_a_row() -> None:
    async def scenario(live: LiveHouse) -> None:
        last, people = await last_id(live, "u1"), slow(live)
        other = await live.listen("u1", last)  # another tab of the same person
        await other.next_events()
        await live.mention("ada")
        await live.settle()
        people.held = 1
        coming = asyncio.create_task(live.listen("u1", last))
        await people.requested.wait()
        await live.mention("bob")
        people.released.set()
        said = await (await coming).next_events(2)
        assert event_types(said) == ["row", "count"]

    run_live(scenario)
