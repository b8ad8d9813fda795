"""Resuming a stream returns everything that was missed, or a reset that reloads the page."""

from datetime import timedelta

import pytest

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.flow.live.streams_and_events import PAGE_SIZE
from tests.http.live_stream_client import LiveBackend, event_types, run_live

NOVA = Subject(Kind.MENTION, UserId("nova"))
U1 = UserId("u1")
BURST_WINDOW = timedelta(minutes=2)
"""A mention later than this opens another burst."""


def test_each_process_sends_to_its_own_listeners() -> None:
    async def scenario(live: LiveBackend) -> None:
        peer = LiveBackend(backend=live.backend)
        streams = [await live.listen("u1"), await peer.listen("u1")]
        await live.mention()
        assert [event_types(await stream.next_events(3)) for stream in streams] == [["count", "row", "count"]] * 2
        last = streams[0].events[-1].id
        live.backend.clock.advance(timedelta(seconds=3))
        for process in (live, peer):
            await process.hub.sweep()
        assert event_types(await (await peer.listen("u1", last)).next_events(2)) == [
            "reset",
            "count",
        ]  # its memory does not reach back to that id
        await peer.close()

    run_live(scenario)


async def last_id(live: LiveBackend, user: str) -> str:
    """Return the id of a client that was disconnected some time after the process began."""
    await (await live.listen(user)).disconnect()
    await live.settle()
    stream = await live.listen(user)
    [count] = await stream.next_events()
    await stream.disconnect()
    await live.settle()
    return count.id


def test_resume_returns_opened_and_grown_bursts() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention("ada", "u2")
        live.backend.people.follow(U1, Subject(Kind.MENTION, UserId("u2")), live.backend.clock.now())
        last = await last_id(live, "u1")
        await live.mention("bob", "u2")
        await live.mention("ada")
        events = await (await live.listen("u1", last)).next_events(3)
        texts = [(event.event, event.data.get("text")) for event in events]
        assert texts == [
            ("group", "ada and bob, 2 mentions of @u2"),
            ("row", "ada mentioned @nova"),
            ("count", None),
        ]

    run_live(scenario)


def test_resume_without_changes_returns_only_the_badge() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention()
        last = await last_id(live, "u1")
        assert event_types(await (await live.listen("u1", last)).next_events()) == ["count"]

    run_live(scenario)


def test_resume_with_more_than_a_page_is_a_reset() -> None:
    async def scenario(live: LiveBackend) -> None:
        last = await last_id(live, "u1")
        for _ in range(PAGE_SIZE + 1):
            live.backend.clock.advance(BURST_WINDOW)
            await live.mention()
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


@pytest.mark.parametrize("last", ["", "x", "ü", "A" * 44, "A" * 5_000])
def test_malformed_id_is_a_reset(last: str) -> None:
    async def scenario(live: LiveBackend) -> None:
        await last_id(live, "u1")
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_id_of_another_user_is_a_reset() -> None:
    async def scenario(live: LiveBackend) -> None:
        last = await last_id(live, "u2")
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_gap_resets_open_and_resumed_streams() -> None:
    async def scenario(live: LiveBackend) -> None:
        last = await last_id(live, "u1")
        stream = await live.listen("u1", last)
        assert event_types(await stream.next_events()) == ["count"]
        live.hub.is_disconnected = True
        await live.settle()
        live.hub._note_caught_up()
        assert event_types(await stream.next_events(2)) == ["reset", "count"]
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_store_provides_new_bursts_while_the_bus_is_away() -> None:
    async def scenario(live: LiveBackend) -> None:
        live.backend.bus.away = True
        stream = await live.listen("u1")
        assert event_types(await stream.next_events()) == ["count"]
        await live.mention()
        await live.hub.sweep()
        assert event_types(await stream.next_events(2)) == ["row", "count"]

    run_live(scenario)


def test_burst_lost_by_the_bus_is_sent_once_from_the_store() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        await stream.next_events()
        live.backend.bus.deaf = True
        await live.mention()
        await live.hub.sweep()
        assert event_types(await stream.next_events(2)) == ["row", "count"]
        await live.hub.sweep()
        await live.drain()
        assert len(stream.events) == 3

    run_live(scenario)


def test_ids_do_not_advance_past_unheard_growth() -> None:
    """Ids stand still while the bus is silent, so a client that resumes learns of the gap."""

    async def scenario(live: LiveBackend) -> None:
        await last_id(live, "u1")
        received_at = live.hub.caught_up_at
        live.backend.clock.advance(timedelta(minutes=5))
        await live.hub.sweep()
        assert live.hub.as_of() < received_at

    run_live(scenario)


def test_resume_between_two_events_of_one_write_repeats_the_second() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1", await last_id(live, "u1"), reading=False)
        await live.mention("ada", "nova")
        live.backend.clock.advance(timedelta(minutes=2))
        await live.mention("bob", "nova")
        await live.drain()
        await live.settle()
        stream.reading.set()
        events = await stream.next_events(4)
        assert event_types(events) == ["count", "row", "row", "count"]
        resumed = await (await live.listen("u1", events[1].id)).next_events(3)
        assert events[2].data in [event.data for event in resumed]
        assert event_types(await (await live.listen("u1", events[3].id)).next_events()) == ["count"]

    run_live(scenario)


def test_resume_after_a_change_of_own_preferences_is_a_reset() -> None:
    async def scenario(live: LiveBackend) -> None:
        live.backend.people.volume(UserId("u1"), NOVA, Volume.OFF)
        last = await last_id(live, "u1")
        live.backend.people.volume(UserId("u1"), NOVA, Volume.ALL)
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)
