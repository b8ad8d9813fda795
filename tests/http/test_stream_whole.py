"""Nothing that grew is lost on a stream: not what the bus couldn't carry, nor what came between page and stream."""

from collections.abc import Sequence

from notifier.flow.sequencing.live_publisher import KEPT, Voice
from notifier.metrics import Metrics
from notifier.wiring.system import build_system
from tests.http.listening_client import Said, Studio, events, on_air
from tests.http.test_stream_resumed import A_WHILE, last_id


def texts(said: Sequence[Said]) -> list[object]:
    return [one.data.get("text") for one in said if one.event in ("row", "group")]


def test_growth_that_a_stall_kept_from_the_bus_is_told_afterwards_without_a_reset() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        await studio.mention("ada")
        await ear.hear(3)
        studio.house.bus.stalled = True
        await studio.mention("bob")
        studio.house.bus.stalled = False
        studio.house.system.live_publisher.speak()
        assert [(one.event, one.data["text"]) for one in await ear.hear()] == [
            ("group", "ada and bob, 2 mentions of @nova")
        ]

    on_air(play)


def test_who_was_away_when_late_growth_was_told_gets_it_though_the_id_is_younger_than_the_growth() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention("ada")
        await last_id(studio, "u1")  # the process hears
        studio.house.bus.stalled = True
        await studio.mention("bob")
        last = await last_id(studio, "u1")
        studio.house.bus.stalled = False
        studio.house.system.live_publisher.speak()
        said = await (await studio.listen("u1", last)).hear(2)
        assert texts(said) == ["ada and bob, 2 mentions of @nova"]

    on_air(play)


def test_what_a_dead_publisher_still_had_to_say_is_a_reset_for_all_once_there_is_another() -> None:
    async def play(studio: Studio) -> None:
        house = studio.house
        await studio.mention("ada")
        last = await last_id(studio, "u1")
        ear = await studio.listen("u1", last)
        await ear.hear()
        house.bus.stalled = True
        await studio.mention("bob")
        successor = build_system(
            ports=house.ports, settings=house.system.settings, metrics=Metrics(), owner="the next"
        ).live_publisher
        successor.speak()  # which fails, too
        house.bus.stalled = False
        successor.speak()
        assert events(await ear.hear(2)) == ["reset", "count"]
        assert events(await (await studio.listen("u1", last)).hear(2)) == ["reset", "count"]
        successor.speak()
        await studio.quiet()
        assert events(ear.said) == ["count", "reset", "count"]

    on_air(play)


def test_more_than_a_publisher_keeps_is_a_reset() -> None:
    async def play(studio: Studio) -> None:
        house = studio.house
        await studio.mention("ada")
        ear = await studio.listen("u1")
        await ear.hear()
        house.bus.stalled = True
        house.system.live_publisher.publish(house.bus.heard[:1] * (KEPT + 1))
        house.bus.stalled = False
        house.system.live_publisher.speak()
        assert events(await ear.hear(2)) == ["reset", "count"]

    on_air(play)


def test_two_publishers_say_the_old_after_the_new_and_the_new_stays() -> None:
    async def play(studio: Studio) -> None:
        house = studio.house
        ear = await studio.listen("u1")
        await studio.mention("ada")
        await ear.hear(3)
        late = Voice(bus=house.bus, missed=False)
        house.bus.stalled = True
        late.publish(house.bus.heard[-1:])
        house.bus.stalled = False
        await studio.mention("bob")
        assert texts(await ear.hear()) == ["ada and bob, 2 mentions of @nova"]
        late.speak()
        await studio.quiet()
        assert len(ear.said) == 4

    on_air(play)


def test_a_stream_goes_on_from_a_page_however_late_it_is_opened() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention("ada")
        await last_id(studio, "u1")  # the process hears
        page = await studio.as_user("u1", "GET", "/v1/inbox")
        await studio.settle()
        await studio.mention("bob")
        await studio.mention("bob", "u1")
        said = await (await studio.listen("u1", page["live"])).hear(3)
        assert events(said) == ["group", "row", "count"]
        assert texts(said) == ["ada and bob, 2 mentions of @nova", "bob mentioned you"]

    on_air(play)


def test_a_page_that_is_older_than_what_the_process_heard_is_a_reset() -> None:
    async def play(studio: Studio) -> None:
        page = await studio.as_user("u1", "GET", "/v1/inbox")
        await studio.mention("ada")
        assert events(await (await studio.listen("u1", page["live"])).hear(2)) == ["reset", "count"]

    on_air(play)


def test_only_a_whole_first_page_has_a_token_for_the_stream() -> None:
    async def play(studio: Studio) -> None:
        for _ in range(2):
            await studio.mention("ada", "u1")
            studio.house.clock.advance(A_WHILE)
        page = await studio.as_user("u1", "GET", "/v1/inbox?limit=1")
        assert page["live"]
        assert (await studio.as_user("u1", "GET", f"/v1/inbox?cursor={page['next']}"))["live"] is None

    on_air(play)
