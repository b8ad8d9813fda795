"""What open streams are told of a digest while something of it is taken back, or can't be read."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.account_preferences import OverallWish
from notifier.domain.users.subject_preferences import Volume
from notifier.flow.live.hub import FRESH_FOR
from tests.http.listening_client import LiveHouse, event_types, run_live
from tests.support.fakes.clock import START

U1 = UserId("u1")
NOVA = "mention:nova"
DUE = START.replace(hour=18)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Then:
    """A timeline, and what happens behind each of its reads, before whoever asked has the answer."""

    port: Any
    work: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    async def before(self, *given: Any) -> Any:
        found = await self.port.before(*given)
        self.work()
        return found


def of_nova(live: LiveHouse) -> Burst:
    [found] = [one for key, one in live.house.bursts.by_key.items() if str(key.subject) == NOVA]
    return found


def taken_back(one: Burst) -> Burst:
    return replace(one, version=one.version + 1, count=0, silent=True)


def test_who_could_never_see_it_hears_nothing_of_it_in_a_digest_nor_when_coming_back() -> None:
    async def scenario(live: LiveHouse) -> None:
        clock, hearers = live.house.clock, live.hub.hearers
        live.house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await live.mention("bob", protected=True)
        await live.drain()
        hidden = of_nova(live)
        clock.advance(DUE - clock.now() + 2 * SECOND)
        await hearers.remind()
        await live.settle()
        last = (await (await live.listen("u1")).next_events())[-1].id
        for one in (taken_back(hidden), replace(hidden, key=BurstKey(hidden.key.subject, 9))):
            hearers.hear(one)
        await live.drain()
        assert event_types(stream.events) == ["count"]
        assert event_types(await (await live.listen("u1", last)).next_events()) == ["count"]

    run_live(scenario)


def test_what_is_taken_back_while_a_digest_is_read_is_told_to_no_stream() -> None:
    async def scenario(live: LiveHouse) -> None:
        clock, hearers = live.house.clock, live.hub.hearers
        live.house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await stream.next_events()
        await live.mention()
        await live.drain()
        clock.advance(DUE - clock.now() + 2 * SECOND)
        timeline = Then(hearers.tab.timeline, lambda: hearers.hear(taken_back(of_nova(live))))
        hearers.tab = replace(hearers.tab, timeline=timeline)
        await hearers.remind()
        assert event_types(await stream.next_events())[0] == "reset"
        await live.drain()
        assert "row" not in event_types(stream.events)

    run_live(scenario)


@dataclass(frozen=True)
class Overdue:
    """A timeline that never answers of a subject."""

    port: Any
    subject: Subject

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    async def before(self, subjects: Collection[Subject], *given: Any) -> Any:
        if self.subject in subjects:
            raise StoreUnavailable("Too slow.")
        return await self.port.before(subjects, *given)


def test_one_whose_digest_cannot_be_read_keeps_nobody_else_s_back() -> None:
    async def scenario(live: LiveHouse) -> None:
        house, hearers, bob = live.house, live.hub.hearers, Subject(Kind.MENTION, UserId("bob"))
        house.people.follow(U1, bob, house.clock.now())
        for user in (U1, UserId("u2")):
            house.people.arrange(user, OverallWish(volume=Volume.DIGEST))
        slow, other = await live.listen("u1"), await live.listen("u2")
        await other.next_events()
        await live.mention()
        await live.drain()
        house.clock.advance(DUE - house.clock.now() + 2 * SECOND)
        timeline = hearers.tab.timeline
        hearers.tab = replace(hearers.tab, timeline=Overdue(timeline, bob))
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await hearers.remind()
        assert event_types(await other.next_events(2)) == ["row", "count"]
        hearers.tab = replace(hearers.tab, timeline=timeline)
        await hearers.remind()
        assert event_types((await slow.next_events(3))[1:]) == ["row", "count"]

    run_live(scenario)


def test_one_whose_badge_cannot_be_counted_keeps_nobody_else_s_block_unheard() -> None:
    async def scenario(live: LiveHouse) -> None:
        house, hearers, bob = live.house, live.hub.hearers, Subject(Kind.MENTION, UserId("bob"))
        slow, other = await live.listen("u1"), await live.listen("u2")
        await slow.next_events()
        await other.next_events()
        house.people.follow(U1, bob, house.clock.now())
        house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        house.people.block(UserId("u2"), UserId("ada"))
        hearers.tab = replace(hearers.tab, timeline=Overdue(hearers.tab.timeline, bob))
        house.clock.advance(FRESH_FOR)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await live.hub.refresh_old()
        assert event_types(await other.next_events(2)) == ["reset", "count"]

    run_live(scenario)
