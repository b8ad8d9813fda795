"""The live hub stops its tasks without clients, and misses nothing for the next client."""

import asyncio
import random
from datetime import timedelta

import pytest

from notifier.flow.live.hub import IDLE_STOP_AFTER
from tests.http.live_stream_client import LiveBackend, SlowBursts, event_types, run_live

ONE_SECOND = timedelta(seconds=1)
RUNNING, AT_REST = (5, 1), (0, 0)
"""Results of `tasks_and_listeners`."""


async def go_to_rest(live: LiveBackend) -> None:
    """Disconnect the only client, and let the hub go to rest."""
    await (await live.listen("u1")).disconnect()
    live.backend.clock.advance(IDLE_STOP_AFTER)
    await live.hub.check_streams()
    await live.drain()


def tasks_and_listeners(live: LiveBackend) -> tuple[int, int]:
    """Return the numbers of the hub's tasks and of its listeners on the bus."""
    return len(live.hub.background_tasks.tasks), len(live.backend.bus.listeners)


def test_hub_without_clients_stops_its_tasks() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        assert tasks_and_listeners(live) == RUNNING
        live.backend.clock.advance(IDLE_STOP_AFTER)
        await live.hub.check_streams()
        await stream.disconnect()
        live.backend.clock.advance(IDLE_STOP_AFTER - ONE_SECOND)
        await live.hub.check_streams()
        await live.drain()
        assert tasks_and_listeners(live) == RUNNING
        live.backend.clock.advance(ONE_SECOND)
        await live.hub.check_streams()
        await live.drain()
        assert tasks_and_listeners(live) == AT_REST

    run_live(scenario)


def test_hub_goes_to_rest_by_its_own_loop() -> None:
    async def run() -> None:
        live = LiveBackend()
        live.app = live.backend.app(lambda _: asyncio.sleep(0))
        await (await live.listen("u1")).disconnect()
        live.backend.clock.advance(IDLE_STOP_AFTER)
        async with asyncio.timeout(5):
            while tasks_and_listeners(live) != AT_REST:
                await asyncio.sleep(0)
        await live.close()

    asyncio.run(run())


def test_first_client_after_a_rest_misses_nothing() -> None:
    async def scenario(live: LiveBackend) -> None:
        await go_to_rest(live)
        await live.mention()
        stream = await live.listen("u1")
        assert tasks_and_listeners(live) == RUNNING
        [count] = await stream.next_events()
        assert count.data["count"] == 1
        live.backend.clock.advance(timedelta(minutes=2))
        await live.mention()
        row, count = await stream.next_events(2)
        assert (row.event, count.data["count"]) == ("row", 2)

    run_live(scenario)


def test_bus_loss_after_a_rest_is_repaired_from_the_store() -> None:
    async def scenario(live: LiveBackend) -> None:
        await go_to_rest(live)
        stream = await live.listen("u1")
        await stream.next_events()
        live.backend.bus.deaf = True
        await live.mention()
        await live.hub.sweep()
        assert event_types(await stream.next_events(2)) == ["row", "count"]

    run_live(scenario)


def test_resume_is_complete_before_a_rest_and_a_reset_after_it() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        [count] = await stream.next_events()
        await stream.disconnect()
        await live.settle()
        stream = await live.listen("u1", count.id)
        last = (await stream.next_events(2))[-1].id  # the first id was from before the hub had heard anything
        await stream.disconnect()
        live.backend.clock.advance(IDLE_STOP_AFTER - timedelta(seconds=20))
        await live.hub.check_streams()
        await live.settle()
        await live.mention()
        stream = await live.listen("u1", last)
        assert event_types(await stream.next_events(2)) == ["row", "count"]
        await stream.disconnect()
        live.backend.clock.advance(IDLE_STOP_AFTER)
        await live.hub.check_streams()
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


async def last_id(live: LiveBackend) -> str:
    """Return the id that a client had when it was disconnected from a running hub."""
    await (await live.listen("u1")).disconnect()
    await live.settle()
    stream = await live.listen("u1")
    [count] = await stream.next_events()
    await stream.disconnect()
    return count.id


def test_ids_from_before_a_rest_are_a_reset_also_without_the_bus() -> None:
    async def scenario(live: LiveBackend) -> None:
        last = await last_id(live)
        live.backend.clock.advance(IDLE_STOP_AFTER)
        await live.hub.check_streams()
        await live.drain()
        await live.mention()
        live.backend.clock.advance(IDLE_STOP_AFTER)
        live.backend.bus.away = True
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_ids_from_after_a_rest_can_be_resumed() -> None:
    async def scenario(live: LiveBackend) -> None:
        await go_to_rest(live)
        last = await last_id(live)
        await live.mention()
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["row", "count"]

    run_live(scenario)


def test_hub_does_not_rest_while_a_client_connects() -> None:
    async def scenario(live: LiveBackend) -> None:
        await go_to_rest(live)
        bursts = SlowBursts(live.hub.bursts)
        live.hub.bursts = bursts
        opening = asyncio.create_task(live.listen("u1"))
        await bursts.requested.wait()
        live.backend.clock.advance(IDLE_STOP_AFTER)
        await live.hub.check_streams()
        bursts.released.set()
        stream = await opening
        await stream.next_events()
        await live.mention()
        assert event_types(await stream.next_events(2)) == ["row", "count"]
        assert tasks_and_listeners(live) == RUNNING

    run_live(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_random_connects_and_disconnects_lose_no_event(seed: int) -> None:
    async def scenario(live: LiveBackend) -> None:
        random_ = random.Random(seed)

        async def yield_steps(steps: int) -> None:
            for _ in range(steps):
                await asyncio.sleep(0)

        async def watch() -> None:
            for _ in range(6):
                await yield_steps(random_.randrange(8))
                live.backend.clock.advance(IDLE_STOP_AFTER)
                await live.hub.check_streams()

        async def visit() -> None:
            await yield_steps(random_.randrange(30))
            await (await live.listen(random_.choice(["u1", "u2"]))).disconnect()

        await asyncio.gather(watch(), *(visit() for _ in range(5)))
        stream = await live.listen("u3")
        await stream.next_events()
        await live.mention()
        events = event_types(await stream.next_events(2))
        while events[-2:] != ["row", "count"]:
            events += event_types(await stream.next_events())
        assert tasks_and_listeners(live) == RUNNING

    run_live(scenario)
