"""Streams lose no growth that is published late, or between page and stream."""

from collections.abc import Sequence

from notifier.flow.sequencing.live_publisher import MAX_BUFFERED_UPDATES, LivePublisher
from notifier.metrics import Metrics
from notifier.wiring.shared_parts import build_system
from tests.http.live_stream_client import LiveBackend, StreamEvent, event_types, run_live
from tests.http.test_stream_resumed import BURST_WINDOW, last_id


def texts(events: Sequence[StreamEvent]) -> list[object]:
    return [event.data.get("text") for event in events if event.event in ("row", "group")]


def test_growth_delayed_by_a_bus_outage_is_sent_without_a_reset() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        await live.mention("ada")
        await stream.next_events(3)
        live.backend.bus.stalled = True
        await live.mention("bob")
        live.backend.bus.stalled = False
        live.backend.system.live_publisher.flush()
        assert [(event.event, event.data["text"]) for event in await stream.next_events()] == [
            ("group", "ada and bob, 2 mentions of @nova")
        ]

    run_live(scenario)


def test_growth_published_late_is_returned_for_a_younger_id() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention("ada")
        await last_id(live, "u1")  # the process has heard from the bus
        live.backend.bus.stalled = True
        await live.mention("bob")
        last = await last_id(live, "u1")
        live.backend.bus.stalled = False
        live.backend.system.live_publisher.flush()
        events = await (await live.listen("u1", last)).next_events(2)
        assert texts(events) == ["ada and bob, 2 mentions of @nova"]

    run_live(scenario)


def test_successor_of_a_dead_publisher_resets_all_streams() -> None:
    async def scenario(live: LiveBackend) -> None:
        backend = live.backend
        await live.mention("ada")
        last = await last_id(live, "u1")
        stream = await live.listen("u1", last)
        await stream.next_events()
        backend.bus.stalled = True
        await live.mention("bob")
        successor = build_system(
            ports=backend.ports, settings=backend.system.settings, metrics=Metrics(), owner="the next"
        ).live_publisher
        successor.flush()  # fails, too: the bus is still stalled
        backend.bus.stalled = False
        successor.flush()
        assert event_types(await stream.next_events(2)) == ["reset", "count"]
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]
        successor.flush()
        await live.drain()
        assert event_types(stream.events) == ["count", "reset", "count"]

    run_live(scenario)


def test_publisher_backlog_over_the_limit_is_a_reset() -> None:
    async def scenario(live: LiveBackend) -> None:
        backend = live.backend
        await live.mention("ada")
        stream = await live.listen("u1")
        await stream.next_events()
        backend.bus.stalled = True
        backend.system.live_publisher.publish(backend.bus.published[:1] * (MAX_BUFFERED_UPDATES + 1))
        backend.bus.stalled = False
        backend.system.live_publisher.flush()
        assert event_types(await stream.next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_stale_message_of_a_late_publisher_is_ignored() -> None:
    async def scenario(live: LiveBackend) -> None:
        backend = live.backend
        stream = await live.listen("u1")
        await live.mention("ada")
        await stream.next_events(3)
        late_publisher = LivePublisher(bus=backend.bus, has_missed_updates=False)
        backend.bus.stalled = True
        late_publisher.publish(backend.bus.published[-1:])
        backend.bus.stalled = False
        await live.mention("bob")
        assert texts(await stream.next_events()) == ["ada and bob, 2 mentions of @nova"]
        late_publisher.flush()
        await live.drain()
        assert len(stream.events) == 4

    run_live(scenario)


def test_stream_continues_from_a_page_however_late_it_opens() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention("ada")
        await last_id(live, "u1")  # the process has heard from the bus
        page = await live.as_user("u1", "GET", "/v1/inbox")
        await live.settle()
        await live.mention("bob")
        await live.mention("bob", "u1")
        events = await (await live.listen("u1", page["live"])).next_events(3)
        assert event_types(events) == ["group", "row", "count"]
        assert texts(events) == ["ada and bob, 2 mentions of @nova", "bob mentioned you"]

    run_live(scenario)


def test_page_older_than_the_hub_s_memory_is_a_reset() -> None:
    async def scenario(live: LiveBackend) -> None:
        page = await live.as_user("u1", "GET", "/v1/inbox")
        await live.mention("ada")
        assert event_types(await (await live.listen("u1", page["live"])).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_only_the_first_page_has_a_stream_token() -> None:
    async def scenario(live: LiveBackend) -> None:
        for _ in range(2):
            await live.mention("ada", "u1")
            live.backend.clock.advance(BURST_WINDOW)
        page = await live.as_user("u1", "GET", "/v1/inbox?limit=1")
        assert page["live"]
        assert (await live.as_user("u1", "GET", f"/v1/inbox?cursor={page['next']}"))["live"] is None

    run_live(scenario)
