"""Nothing that grew is lost on a stream: not what the bus couldn't carry, nor what came between page and stream."""

from collections.abc import Sequence

from notifier.flow.sequencing.live_publisher import KEPT, Voice
from notifier.metrics import Metrics
from notifier.wiring.system import build_system
from tests.http.listening_client import LiveHouse, StreamEvent, event_types, run_live
from tests.http.test_stream_resumed import A_WHILE, last_id


def texts(said: Sequence[StreamEvent]) -> list[object]:
    return [one.data.get("text") for one in said if one.event in ("row", "group")]


def test_growth_that_a_stall_kept_from_the_bus_is_told_afterwards_without_a_reset() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        await live.mention("ada")
        await stream.next_events(3)
        live.house.bus.stalled = True
        await live.mention("bob")
        live.house.bus.stalled = False
        live.house.system.live_publisher.speak()
        assert [(one.event, one.data["text"]) for one in await stream.next_events()] == [
            ("group", "ada and bob, 2 mentions of @nova")
        ]

    run_live(scenario)


def test_who_was_away_when_late_growth_was_told_gets_it_though_the_id_is_younger_than_the_growth() -> None:
    async def scenario(live: LiveHouse) -> None:
        await live.mention("ada")
        await last_id(live, "u1")  # the process hears
        live.house.bus.stalled = True
        await live.mention("bob")
        last = await last_id(live, "u1")
        live.house.bus.stalled = False
        live.house.system.live_publisher.speak()
        said = await (await live.listen("u1", last)).next_events(2)
        assert texts(said) == ["ada and bob, 2 mentions of @nova"]

    run_live(scenario)


def test_what_a_dead_publisher_still_had_to_say_is_a_reset_for_all_once_there_is_another() -> None:
    async def scenario(live: LiveHouse) -> None:
        house = live.house
        await live.mention("ada")
        last = await last_id(live, "u1")
        stream = await live.listen("u1", last)
        await stream.next_events()
        house.bus.stalled = True
        await live.mention("bob")
        successor = build_system(
            ports=house.ports, settings=house.system.settings, metrics=Metrics(), owner="the next"
        ).live_publisher
        successor.speak()  # which fails, too
        house.bus.stalled = False
        successor.speak()
        assert event_types(await stream.next_events(2)) == ["reset", "count"]
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]
        successor.speak()
        await live.drain()
        assert event_types(stream.events) == ["count", "reset", "count"]

    run_live(scenario)


def test_more_than_a_publisher_keeps_is_a_reset() -> None:
    async def scenario(live: LiveHouse) -> None:
        house = live.house
        await live.mention("ada")
        stream = await live.listen("u1")
        await stream.next_events()
        house.bus.stalled = True
        house.system.live_publisher.publish(house.bus.heard[:1] * (KEPT + 1))
        house.bus.stalled = False
        house.system.live_publisher.speak()
        assert event_types(await stream.next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_two_publishers_say_the_old_after_the_new_and_the_new_stays() -> None:
    async def scenario(live: LiveHouse) -> None:
        house = live.house
        stream = await live.listen("u1")
        await live.mention("ada")
        await stream.next_events(3)
        late = Voice(bus=house.bus, missed=False)
        house.bus.stalled = True
        late.publish(house.bus.heard[-1:])
        house.bus.stalled = False
        await live.mention("bob")
        assert texts(await stream.next_events()) == ["ada and bob, 2 mentions of @nova"]
        late.speak()
        await live.drain()
        assert len(stream.events) == 4

    run_live(scenario)


def test_a_stream_goes_on_from_a_page_however_late_it_is_opened() -> None:
    async def scenario(live: LiveHouse) -> None:
        await live.mention("ada")
        await last_id(live, "u1")  # the process hears
        page = await live.as_user("u1", "GET", "/v1/inbox")
        await live.settle()
        await live.mention("bob")
        await live.mention("bob", "u1")
        said = await (await live.listen("u1", page["live"])).next_events(3)
        assert event_types(said) == ["group", "row", "count"]
        assert texts(said) == ["ada and bob, 2 mentions of @nova", "bob mentioned you"]

    run_live(scenario)


def test_a_page_that_is_older_than_what_the_process_heard_is_a_reset() -> None:
    async def scenario(live: LiveHouse) -> None:
        page = await live.as_user("u1", "GET", "/v1/inbox")
        await live.mention("ada")
        assert event_types(await (await live.listen("u1", page["live"])).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_only_a_whole_first_page_has_a_token_for_the_stream() -> None:
    async def scenario(live: LiveHouse) -> None:
        for _ in range(2):
            await live.mention("ada", "u1")
            live.house.clock.advance(A_WHILE)
        page = await live.as_user("u1", "GET", "/v1/inbox?limit=1")
        assert page["live"]
        assert (await live.as_user("u1", "GET", f"/v1/inbox?cursor={page['next']}"))["live"] is None

    run_live(scenario)
