"""With nobody there the hub rests, asks neither bus nor store, and misses nothing for whoever comes next."""

import asyncio
import random
from datetime import timedelta

import pytest

from notifier.flow.live.hub import RESTS_AFTER
from tests.http.listening_client import LiveHouse, SlowBursts, event_types, run_live

A_MOMENT = timedelta(seconds=1)


async def rested(live: LiveHouse) -> None:
    """Somebody was there, and has been gone for long enough."""
    await (await live.listen("u1")).disconnect()
    live.house.clock.advance(RESTS_AFTER)
    await live.hub.watch()
    await live.drain()


def at_work(live: LiveHouse) -> tuple[int, int]:
    """Tasks, and lines to the bus."""
    return len(live.hub.shift.tasks), len(live.house.bus.lines)


def test_with_nobody_there_for_a_while_it_asks_nobody_anything() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        assert at_work(live) == (5, 1)
        live.house.clock.advance(RESTS_AFTER)
        await live.hub.watch()
        await stream.disconnect()
        live.house.clock.advance(RESTS_AFTER - A_MOMENT)
        await live.hub.watch()
        await live.drain()
        assert at_work(live) == (5, 1)
        live.house.clock.advance(A_MOMENT)
        await live.hub.watch()
        await live.drain()
        assert at_work(live) == (0, 0)

    run_live(scenario)


def test_its_own_loop_brings_it_to_rest() -> None:
    async def run() -> None:
        live = LiveHouse()
        live.app = live.house.app(lambda _: asyncio.sleep(0))
        await (await live.listen("u1")).disconnect()
        live.house.clock.advance(RESTS_AFTER)
        async with asyncio.timeout(5):
            while at_work(live) != (0, 0):
                await asyncio.sleep(0)
        await live.close()

    asyncio.run(run())


def test_whoever_comes_next_hears_of_what_opens_and_has_what_opened_meanwhile() -> None:
    async def scenario(live: LiveHouse) -> None:
        await rested(live)
        await live.mention()
        stream = await live.listen("u1")
        assert at_work(live) == (5, 1)
        [count] = await stream.next_events()
        assert count.data["count"] == 1
        live.house.clock.advance(timedelta(minutes=2))
        await live.mention()
        row, count = await stream.next_events(2)
        assert (row.event, count.data["count"]) == ("row", 2)

    run_live(scenario)


def test_what_the_bus_loses_after_a_rest_the_store_has() -> None:
    async def scenario(live: LiveHouse) -> None:
        await rested(live)
        stream = await live.listen("u1")
        await stream.next_events()
        live.house.bus.deaf = True
        await live.mention()
        await live.hub.sweep()
        assert event_types(await stream.next_events(2)) == ["row", "count"]

    run_live(scenario)


def test_who_comes_back_before_it_rests_gets_what_was_missed_and_afterwards_a_reset() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        [count] = await stream.next_events()
        await stream.disconnect()
        await live.settle()
        stream = await live.listen("u1", count.id)
        last = (await stream.next_events(2))[-1].id  # the first id was from before the hub had heard anything
        await stream.disconnect()
        live.house.clock.advance(RESTS_AFTER - timedelta(seconds=20))
        await live.hub.watch()
        await live.settle()
        await live.mention()
        stream = await live.listen("u1", last)
        assert event_types(await stream.next_events(2)) == ["row", "count"]
        await stream.disconnect()
        live.house.clock.advance(RESTS_AFTER)
        await live.hub.watch()
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


async def last_id(live: LiveHouse) -> str:
    """What a client had when it was cut off from a hub that hears."""
    await (await live.listen("u1")).disconnect()
    await live.settle()
    stream = await live.listen("u1")
    [count] = await stream.next_events()
    await stream.disconnect()
    return count.id


def test_what_it_remembered_before_a_rest_proves_nothing_after_one_also_without_the_bus() -> None:
    async def scenario(live: LiveHouse) -> None:
        last = await last_id(live)
        live.house.clock.advance(RESTS_AFTER)
        await live.hub.watch()
        await live.drain()
        await live.mention()
        live.house.clock.advance(RESTS_AFTER)
        live.house.bus.away = True
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_after_a_rest_one_can_be_cut_off_and_come_back_as_before() -> None:
    async def scenario(live: LiveHouse) -> None:
        await rested(live)
        last = await last_id(live)
        await live.mention()
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["row", "count"]

    run_live(scenario)


def test_it_does_not_rest_under_somebody_who_is_just_coming() -> None:
    async def scenario(live: LiveHouse) -> None:
        await rested(live)
        bursts = SlowBursts(live.hub.bursts)
        live.hub.bursts = bursts
        coming = asyncio.create_task(live.listen("u1"))
        await bursts.requested.wait()
        live.house.clock.advance(RESTS_AFTER)
        await live.hub.watch()
        bursts.released.set()
        stream = await coming
        await stream.next_events()
        await live.mention()
        assert event_types(await stream.next_events(2)) == ["row", "count"]
        assert at_work(live) == (5, 1)

    run_live(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_however_the_last_goes_and_the_next_comes_nobody_is_left_unheard(seed: int) -> None:
    async def scenario(live: LiveHouse) -> None:
        dice = random.Random(seed)

        async def some(steps: int) -> None:
            for _ in range(steps):
                await asyncio.sleep(0)

        async def watch() -> None:
            for _ in range(6):
                await some(dice.randrange(8))
                live.house.clock.advance(RESTS_AFTER)
                await live.hub.watch()

        async def visit() -> None:
            await some(dice.randrange(30))
            await (await live.listen(dice.choice(["u1", "u2"]))).disconnect()

        await asyncio.gather(watch(), *(visit() for _ in range(5)))
        stream = await live.listen("u3")
        await stream.next_events()
        await live.mention()
        said = event_types(await stream.next_events(2))
        while said[-2:] != ["row", "count"]:
            said += event_types(await stream.next_events())
        assert at_work(live) == (5, 1)

    run_live(scenario)
