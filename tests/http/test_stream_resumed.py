"""What a stream tells whoever was away, or while a part is: all of it, or that the page is to be loaded again."""

from datetime import timedelta

import pytest

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.flow.live.stream import A_PAGE
from tests.http.listening_client import LiveHouse, event_types, run_live

NOVA = Subject(Kind.MENTION, UserId("nova"))
U1 = UserId("u1")
A_WHILE = timedelta(minutes=2)
"""A mention later than this opens a burst of its own."""


def test_both_processes_tell_their_own_listeners() -> None:
    async def scenario(live: LiveHouse) -> None:
        other = LiveHouse(house=live.house)
        ears = [await live.listen("u1"), await other.listen("u1")]
        await live.mention()
        assert [event_types(await stream.next_events(3)) for stream in ears] == [["count", "row", "count"]] * 2
        last = ears[0].said[-1].id
        live.house.clock.advance(timedelta(seconds=3))
        for each in (live, other):
            await each.hub.sweep()
        assert event_types(await (await other.listen("u1", last)).next_events(2)) == [
            "reset",
            "count",
        ]  # its memory is younger
        await other.close()

    run_live(scenario)


async def last_id(live: LiveHouse, user: str) -> str:
    """What a client had when it was cut off, some time after the process began."""
    await (await live.listen(user)).disconnect()
    await live.settle()
    stream = await live.listen(user)
    [count] = await stream.next_events()
    await stream.disconnect()
    await live.settle()
    return count.id


def test_who_comes_back_gets_what_opened_and_what_grew_meanwhile() -> None:
    async def scenario(live: LiveHouse) -> None:
        await live.mention("ada", "u2")
        live.house.people.follow(U1, Subject(Kind.MENTION, UserId("u2")), live.house.clock.now())
        last = await last_id(live, "u1")
        await live.mention("bob", "u2")
        await live.mention("ada")
        said = await (await live.listen("u1", last)).next_events(3)
        told = [(one.event, one.data.get("text")) for one in said]
        assert told == [
            ("group", "ada and bob, 2 mentions of @u2"),
            ("row", "ada mentioned @nova"),
            ("count", None),
        ]

    run_live(scenario)


def test_who_missed_nothing_gets_the_badge_alone() -> None:
    async def scenario(live: LiveHouse) -> None:
        await live.mention()
        last = await last_id(live, "u1")
        assert event_types(await (await live.listen("u1", last)).next_events()) == ["count"]

    run_live(scenario)


def test_more_than_a_page_is_a_reset() -> None:
    async def scenario(live: LiveHouse) -> None:
        last = await last_id(live, "u1")
        for _ in range(A_PAGE + 1):
            live.house.clock.advance(A_WHILE)
            await live.mention()
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


@pytest.mark.parametrize("last", ["", "x", "ü", "A" * 44, "A" * 5_000])
def test_an_id_of_nobody_is_a_reset(last: str) -> None:
    async def scenario(live: LiveHouse) -> None:
        await last_id(live, "u1")
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_an_id_of_somebody_else_is_a_reset() -> None:
    async def scenario(live: LiveHouse) -> None:
        last = await last_id(live, "u2")
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_after_a_gap_everybody_loads_the_page_again_and_so_does_who_comes_back() -> None:
    async def scenario(live: LiveHouse) -> None:
        last = await last_id(live, "u1")
        stream = await live.listen("u1", last)
        assert event_types(await stream.next_events()) == ["count"]
        live.hub.deaf = True
        await live.settle()
        live.hub._caught_up()
        assert event_types(await stream.next_events(2)) == ["reset", "count"]
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_while_the_bus_is_away_the_store_tells_of_new_bursts() -> None:
    async def scenario(live: LiveHouse) -> None:
        live.house.bus.away = True
        stream = await live.listen("u1")
        assert event_types(await stream.next_events()) == ["count"]
        await live.mention()
        await live.hub.sweep()
        assert event_types(await stream.next_events(2)) == ["row", "count"]

    run_live(scenario)


def test_a_burst_whose_word_was_lost_is_told_by_the_store_and_told_once() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        await stream.next_events()
        live.house.bus.deaf = True
        await live.mention()
        await live.hub.sweep()
        assert event_types(await stream.next_events(2)) == ["row", "count"]
        await live.hub.sweep()
        await live.drain()
        assert len(stream.events) == 3

    run_live(scenario)


def test_an_old_growth_that_was_not_heard_is_claimed_by_no_id() -> None:
    """While the bus is silent, ids stand still: who comes back with one learns of the gap."""

    async def scenario(live: LiveHouse) -> None:
        await last_id(live, "u1")
        heard_at = live.hub.caught_up_at
        live.house.clock.advance(timedelta(minutes=5))
        await live.hub.sweep()
        assert live.hub.as_of() < heard_at

    run_live(scenario)


def test_who_is_cut_off_between_two_events_of_one_write_gets_the_second_again() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1", await last_id(live, "u1"), reading=False)
        await live.mention("ada", "nova")
        live.house.clock.advance(timedelta(minutes=2))
        await live.mention("bob", "nova")
        await live.drain()
        await live.settle()
        stream.reading.set()
        said = await stream.next_events(4)
        assert event_types(said) == ["count", "row", "row", "count"]
        again = await (await live.listen("u1", said[1].id)).next_events(3)
        assert said[2].data in [one.data for one in again]
        assert event_types(await (await live.listen("u1", said[3].id)).next_events()) == ["count"]

    run_live(scenario)


def test_what_became_visible_by_a_change_of_one_s_own_is_on_the_page_alone_so_it_is_a_reset() -> None:
    async def scenario(live: LiveHouse) -> None:
        live.house.people.volume(UserId("u1"), NOVA, Volume.OFF)
        last = await last_id(live, "u1")
        live.house.people.volume(UserId("u1"), NOVA, Volume.ALL)
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)
