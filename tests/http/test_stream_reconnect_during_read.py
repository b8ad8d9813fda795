"""Clients that reconnect while the store is still being read miss nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from notifier.domain.ids import Member, UserId
from notifier.domain.users.visibility import Viewer
from tests.http.live_stream_client import LiveBackend, event_types, run_live
from tests.http.test_stream_marks import mark, newest_burst
from tests.http.test_stream_resumed import last_id
from tests.support.fakes.viewer_facts import MemoryPeople
from tests.support.in_memory_http_api import MemoryBackend


@dataclass(slots=True)
class SlowViewerRead:
    """Delays the next `held` reads of a viewer until the test allows them."""

    read: Callable[[UserId, Member], Awaitable[Viewer]]
    held: int = 0
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        viewer_ = await self.read(user, member)
        if self.held:
            self.held -= 1
            self.requested.set()
            await self.released.wait()
        return viewer_


class SlowPeople(MemoryPeople):
    def __init__(self, backend: MemoryBackend) -> None:
        self.__dict__ = backend.people.__dict__
        self.slow = SlowViewerRead(super().viewer)

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        return await self.slow.viewer(user, member)


def slow_people(live: LiveBackend) -> SlowViewerRead:
    people = SlowPeople(live.backend)
    live.hub.registry.inbox = replace(live.hub.registry.inbox, people=people)
    return people.slow


async def disconnected_during_a_read(live: LiveBackend) -> SlowViewerRead:
    """Disconnect a user's only stream while the read that their mark began goes on."""
    await live.mention()
    first, people = await live.listen("u1"), slow_people(live)
    await first.next_events()
    people.held = 1
    await mark(live, await newest_burst(live), "read")
    await people.requested.wait()
    await first.disconnect()
    return people


def test_late_read_of_a_closed_stream_does_not_affect_the_next() -> None:
    async def scenario(live: LiveBackend) -> None:
        people = await disconnected_during_a_read(live)
        second = await live.listen("u1")
        await second.next_events()
        people.released.set()
        await live.drain()
        await live.mention("bob")
        assert event_types(await second.next_events()) == ["group"]

    run_live(scenario)


def test_late_read_of_a_closed_stream_leaves_no_state() -> None:
    async def scenario(live: LiveBackend) -> None:
        people = await disconnected_during_a_read(live)
        people.released.set()
        await live.drain()
        assert not live.hub.registry.listeners_by_subject

    run_live(scenario)


def test_burst_that_opened_while_away_and_grows_on_return_is_a_row() -> None:
    async def scenario(live: LiveBackend) -> None:
        last, people = await last_id(live, "u1"), slow_people(live)
        second_tab = await live.listen("u1", last)  # another tab of the same user
        await second_tab.next_events()
        await live.mention("ada")
        await live.settle()
        people.held = 1
        opening = asyncio.create_task(live.listen("u1", last))
        await people.requested.wait()
        await live.mention("bob")
        people.released.set()
        events = await (await opening).next_events(2)
        assert event_types(events) == ["row", "count"]

    run_live(scenario)
