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
from tests.http.listening_client import Studio, events, on_air
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


def of_nova(studio: Studio) -> Burst:
    [found] = [one for key, one in studio.house.bursts.by_key.items() if str(key.subject) == NOVA]
    return found


def taken_back(one: Burst) -> Burst:
    return replace(one, version=one.version + 1, count=0, silent=True)


def test_who_could_never_see_it_hears_nothing_of_it_in_a_digest_nor_when_coming_back() -> None:
    async def play(studio: Studio) -> None:
        clock, hearers = studio.house.clock, studio.hub.hearers
        studio.house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        ear = await studio.listen("u1")
        await studio.mention("bob", protected=True)
        await studio.quiet()
        hidden = of_nova(studio)
        clock.advance(DUE - clock.now() + 2 * SECOND)
        await hearers.remind()
        await studio.settle()
        last = (await (await studio.listen("u1")).hear())[-1].id
        for one in (taken_back(hidden), replace(hidden, key=BurstKey(hidden.key.subject, 9))):
            hearers.hear(one)
        await studio.quiet()
        assert events(ear.said) == ["count"]
        assert events(await (await studio.listen("u1", last)).hear()) == ["count"]

    on_air(play)


def test_what_is_taken_back_while_a_digest_is_read_is_told_to_no_stream() -> None:
    async def play(studio: Studio) -> None:
        clock, hearers = studio.house.clock, studio.hub.hearers
        studio.house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        ear = await studio.listen("u1")
        await ear.hear()
        await studio.mention()
        await studio.quiet()
        clock.advance(DUE - clock.now() + 2 * SECOND)
        timeline = Then(hearers.tab.timeline, lambda: hearers.hear(taken_back(of_nova(studio))))
        hearers.tab = replace(hearers.tab, timeline=timeline)
        await hearers.remind()
        assert events(await ear.hear())[0] == "reset"
        await studio.quiet()
        assert "row" not in events(ear.said)

    on_air(play)


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
    async def play(studio: Studio) -> None:
        house, hearers, bob = studio.house, studio.hub.hearers, Subject(Kind.MENTION, UserId("bob"))
        house.people.follow(U1, bob, house.clock.now())
        for user in (U1, UserId("u2")):
            house.people.arrange(user, OverallWish(volume=Volume.DIGEST))
        slow, other = await studio.listen("u1"), await studio.listen("u2")
        await other.hear()
        await studio.mention()
        await studio.quiet()
        house.clock.advance(DUE - house.clock.now() + 2 * SECOND)
        timeline = hearers.tab.timeline
        hearers.tab = replace(hearers.tab, timeline=Overdue(timeline, bob))
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await hearers.remind()
        assert events(await other.hear(2)) == ["row", "count"]
        hearers.tab = replace(hearers.tab, timeline=timeline)
        await hearers.remind()
        assert events((await slow.hear(3))[1:]) == ["row", "count"]

    on_air(play)


def test_one_whose_badge_cannot_be_counted_keeps_nobody_else_s_block_unheard() -> None:
    async def play(studio: Studio) -> None:
        house, hearers, bob = studio.house, studio.hub.hearers, Subject(Kind.MENTION, UserId("bob"))
        slow, other = await studio.listen("u1"), await studio.listen("u2")
        await slow.hear()
        await other.hear()
        house.people.follow(U1, bob, house.clock.now())
        house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        house.people.block(UserId("u2"), UserId("ada"))
        hearers.tab = replace(hearers.tab, timeline=Overdue(hearers.tab.timeline, bob))
        house.clock.advance(FRESH_FOR)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await studio.hub.refresh_old()
        assert events(await other.hear(2)) == ["reset", "count"]

    on_air(play)
