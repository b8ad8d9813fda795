"""With nobody there the hub rests, asks neither bus nor store, and misses nothing for whoever comes next."""

import asyncio
import random
from datetime import timedelta

import pytest

from notifier.flow.live.hub import RESTS_AFTER
from tests.http.listening_client import SlowBursts, Studio, events, on_air

A_MOMENT = timedelta(seconds=1)


async def rested(studio: Studio) -> None:
    """Somebody was there, and has been gone for long enough."""
    await (await studio.listen("u1")).leave()
    studio.house.clock.advance(RESTS_AFTER)
    await studio.hub.watch()
    await studio.quiet()


def at_work(studio: Studio) -> tuple[int, int]:
    """Tasks, and lines to the bus."""
    return len(studio.hub.shift.tasks), len(studio.house.bus.lines)


def test_with_nobody_there_for_a_while_it_asks_nobody_anything() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        assert at_work(studio) == (5, 1)
        studio.house.clock.advance(RESTS_AFTER)
        await studio.hub.watch()
        await ear.leave()
        studio.house.clock.advance(RESTS_AFTER - A_MOMENT)
        await studio.hub.watch()
        await studio.quiet()
        assert at_work(studio) == (5, 1)
        studio.house.clock.advance(A_MOMENT)
        await studio.hub.watch()
        await studio.quiet()
        assert at_work(studio) == (0, 0)

    on_air(play)


def test_its_own_loop_brings_it_to_rest() -> None:
    async def run() -> None:
        studio = Studio()
        studio.app = studio.house.app(lambda _: asyncio.sleep(0))
        await (await studio.listen("u1")).leave()
        studio.house.clock.advance(RESTS_AFTER)
        async with asyncio.timeout(5):
            while at_work(studio) != (0, 0):
                await asyncio.sleep(0)
        await studio.close()

    asyncio.run(run())


def test_whoever_comes_next_hears_of_what_opens_and_has_what_opened_meanwhile() -> None:
    async def play(studio: Studio) -> None:
        await rested(studio)
        await studio.mention()
        ear = await studio.listen("u1")
        assert at_work(studio) == (5, 1)
        [count] = await ear.hear()
        assert count.data["count"] == 1
        studio.house.clock.advance(timedelta(minutes=2))
        await studio.mention()
        row, count = await ear.hear(2)
        assert (row.event, count.data["count"]) == ("row", 2)

    on_air(play)


def test_what_the_bus_loses_after_a_rest_the_store_has() -> None:
    async def play(studio: Studio) -> None:
        await rested(studio)
        ear = await studio.listen("u1")
        await ear.hear()
        studio.house.bus.deaf = True
        await studio.mention()
        await studio.hub.sweep()
        assert events(await ear.hear(2)) == ["row", "count"]

    on_air(play)


def test_who_comes_back_before_it_rests_gets_what_was_missed_and_afterwards_a_reset() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        [count] = await ear.hear()
        await ear.leave()
        await studio.settle()
        ear = await studio.listen("u1", count.id)
        last = (await ear.hear(2))[-1].id  # the first id was from before the hub had heard anything
        await ear.leave()
        studio.house.clock.advance(RESTS_AFTER - timedelta(seconds=20))
        await studio.hub.watch()
        await studio.settle()
        await studio.mention()
        ear = await studio.listen("u1", last)
        assert events(await ear.hear(2)) == ["row", "count"]
        await ear.leave()
        studio.house.clock.advance(RESTS_AFTER)
        await studio.hub.watch()
        assert events(await (await studio.listen("u1", last)).hear(2)) == ["reset", "count"]

    on_air(play)


async def last_id(studio: Studio) -> str:
    """What a client had when it was cut off from a hub that hears."""
    await (await studio.listen("u1")).leave()
    await studio.settle()
    ear = await studio.listen("u1")
    [count] = await ear.hear()
    await ear.leave()
    return count.id


def test_what_it_remembered_before_a_rest_proves_nothing_after_one_also_without_the_bus() -> None:
    async def play(studio: Studio) -> None:
        last = await last_id(studio)
        studio.house.clock.advance(RESTS_AFTER)
        await studio.hub.watch()
        await studio.quiet()
        await studio.mention()
        studio.house.clock.advance(RESTS_AFTER)
        studio.house.bus.away = True
        assert events(await (await studio.listen("u1", last)).hear(2)) == ["reset", "count"]

    on_air(play)


def test_after_a_rest_one_can_be_cut_off_and_come_back_as_before() -> None:
    async def play(studio: Studio) -> None:
        await rested(studio)
        last = await last_id(studio)
        await studio.mention()
        assert events(await (await studio.listen("u1", last)).hear(2)) == ["row", "count"]

    on_air(play)


def test_it_does_not_rest_under_somebody_who_is_just_coming() -> None:
    async def play(studio: Studio) -> None:
        await rested(studio)
        bursts = SlowBursts(studio.hub.bursts)
        studio.hub.bursts = bursts
        coming = asyncio.create_task(studio.listen("u1"))
        await bursts.asked.wait()
        studio.house.clock.advance(RESTS_AFTER)
        await studio.hub.watch()
        bursts.answers.set()
        ear = await coming
        await ear.hear()
        await studio.mention()
        assert events(await ear.hear(2)) == ["row", "count"]
        assert at_work(studio) == (5, 1)

    on_air(play)


@pytest.mark.parametrize("seed", range(20))
def test_however_the_last_goes_and_the_next_comes_nobody_is_left_unheard(seed: int) -> None:
    async def play(studio: Studio) -> None:
        dice = random.Random(seed)

        async def some(steps: int) -> None:
            for _ in range(steps):
                await asyncio.sleep(0)

        async def watch() -> None:
            for _ in range(6):
                await some(dice.randrange(8))
                studio.house.clock.advance(RESTS_AFTER)
                await studio.hub.watch()

        async def visit() -> None:
            await some(dice.randrange(30))
            await (await studio.listen(dice.choice(["u1", "u2"]))).leave()

        await asyncio.gather(watch(), *(visit() for _ in range(5)))
        ear = await studio.listen("u3")
        await ear.hear()
        await studio.mention()
        said = events(await ear.hear(2))
        while said[-2:] != ["row", "count"]:
            said += events(await ear.hear())
        assert at_work(studio) == (5, 1)

    on_air(play)
