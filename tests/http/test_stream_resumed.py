"""What a stream tells whoever was away, or while a part is: all of it, or that the page is to be loaded again."""

from datetime import timedelta

import pytest

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.flow.live.stream import A_PAGE
from tests.http.listening_client import Studio, events, on_air

NOVA = Subject(Kind.MENTION, UserId("nova"))
U1 = UserId("u1")
A_WHILE = timedelta(minutes=2)
"""A mention later than this opens a burst of its own."""


def test_both_processes_tell_their_own_listeners() -> None:
    async def play(studio: Studio) -> None:
        other = Studio(house=studio.house)
        ears = [await studio.listen("u1"), await other.listen("u1")]
        await studio.mention()
        assert [events(await ear.hear(3)) for ear in ears] == [["count", "row", "count"]] * 2
        last = ears[0].said[-1].id
        studio.house.clock.advance(timedelta(seconds=3))
        for each in (studio, other):
            await each.hub.sweep()
        assert events(await (await other.listen("u1", last)).hear(2)) == ["reset", "count"]  # its memory is younger
        await other.close()

    on_air(play)


async def last_id(studio: Studio, user: str) -> str:
    """What a client had when it was cut off, some time after the process began."""
    await (await studio.listen(user)).leave()
    await studio.settle()
    ear = await studio.listen(user)
    [count] = await ear.hear()
    await ear.leave()
    await studio.settle()
    return count.id


def test_who_comes_back_gets_what_opened_and_what_grew_meanwhile() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention("ada", "u2")
        studio.house.people.follow(U1, Subject(Kind.MENTION, UserId("u2")), studio.house.clock.now())
        last = await last_id(studio, "u1")
        await studio.mention("bob", "u2")
        await studio.mention("ada")
        said = await (await studio.listen("u1", last)).hear(3)
        told = [(one.event, one.data.get("text")) for one in said]
        assert told == [
            ("group", "ada and bob, 2 mentions of @u2"),
            ("row", "ada mentioned @nova"),
            ("count", None),
        ]

    on_air(play)


def test_who_missed_nothing_gets_the_badge_alone() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention()
        last = await last_id(studio, "u1")
        assert events(await (await studio.listen("u1", last)).hear()) == ["count"]

    on_air(play)


def test_more_than_a_page_is_a_reset() -> None:
    async def play(studio: Studio) -> None:
        last = await last_id(studio, "u1")
        for _ in range(A_PAGE + 1):
            studio.house.clock.advance(A_WHILE)
            await studio.mention()
        assert events(await (await studio.listen("u1", last)).hear(2)) == ["reset", "count"]

    on_air(play)


@pytest.mark.parametrize("last", ["", "x", "ü", "A" * 44, "A" * 5_000])
def test_an_id_of_nobody_is_a_reset(last: str) -> None:
    async def play(studio: Studio) -> None:
        await last_id(studio, "u1")
        assert events(await (await studio.listen("u1", last)).hear(2)) == ["reset", "count"]

    on_air(play)


def test_an_id_of_somebody_else_is_a_reset() -> None:
    async def play(studio: Studio) -> None:
        last = await last_id(studio, "u2")
        assert events(await (await studio.listen("u1", last)).hear(2)) == ["reset", "count"]

    on_air(play)


def test_after_a_gap_everybody_loads_the_page_again_and_so_does_who_comes_back() -> None:
    async def play(studio: Studio) -> None:
        last = await last_id(studio, "u1")
        ear = await studio.listen("u1", last)
        assert events(await ear.hear()) == ["count"]
        studio.hub.deaf = True
        await studio.settle()
        studio.hub._caught_up()
        assert events(await ear.hear(2)) == ["reset", "count"]
        assert events(await (await studio.listen("u1", last)).hear(2)) == ["reset", "count"]

    on_air(play)


def test_while_the_bus_is_away_the_store_tells_of_new_bursts() -> None:
    async def play(studio: Studio) -> None:
        studio.house.bus.away = True
        ear = await studio.listen("u1")
        assert events(await ear.hear()) == ["count"]
        await studio.mention()
        await studio.hub.sweep()
        assert events(await ear.hear(2)) == ["row", "count"]

    on_air(play)


def test_a_burst_whose_word_was_lost_is_told_by_the_store_and_told_once() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        await ear.hear()
        studio.house.bus.deaf = True
        await studio.mention()
        await studio.hub.sweep()
        assert events(await ear.hear(2)) == ["row", "count"]
        await studio.hub.sweep()
        await studio.quiet()
        assert len(ear.said) == 3

    on_air(play)


def test_an_old_growth_that_was_not_heard_is_claimed_by_no_id() -> None:
    """While the bus is silent, ids stand still: who comes back with one learns of the gap."""

    async def play(studio: Studio) -> None:
        await last_id(studio, "u1")
        heard_at = studio.hub.caught_up_at
        studio.house.clock.advance(timedelta(minutes=5))
        await studio.hub.sweep()
        assert studio.hub.as_of() < heard_at

    on_air(play)


def test_who_is_cut_off_between_two_events_of_one_write_gets_the_second_again() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1", await last_id(studio, "u1"), reads=False)
        await studio.mention("ada", "nova")
        studio.house.clock.advance(timedelta(minutes=2))
        await studio.mention("bob", "nova")
        await studio.quiet()
        await studio.settle()
        ear.reads.set()
        said = await ear.hear(4)
        assert events(said) == ["count", "row", "row", "count"]
        again = await (await studio.listen("u1", said[1].id)).hear(3)
        assert said[2].data in [one.data for one in again]
        assert events(await (await studio.listen("u1", said[3].id)).hear()) == ["count"]

    on_air(play)


def test_what_became_visible_by_a_change_of_one_s_own_is_on_the_page_alone_so_it_is_a_reset() -> None:
    async def play(studio: Studio) -> None:
        studio.house.people.volume(UserId("u1"), NOVA, Volume.OFF)
        last = await last_id(studio, "u1")
        studio.house.people.volume(UserId("u1"), NOVA, Volume.ALL)
        assert events(await (await studio.listen("u1", last)).hear(2)) == ["reset", "count"]

    on_air(play)
