"""Demo traffic: exactly one of several API processes creates the mentions."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from notifier.api.demo.traffic import (
    STORM_CELEBRITIES,
    STORM_RATE,
    STORM_SECONDS,
    TRICKLE_ACCOUNTS,
    TRICKLE_TERM,
    DemoTraffic,
)
from notifier.domain.errors import StoreUnavailable
from tests.support.fakes.clock_and_nonces import CountedNonces, ManualClock
from tests.support.fakes.epochs_leases_queues_throttles import MemoryLeases


@dataclass
class Store:
    """State shared by the processes."""

    clock: ManualClock = field(default_factory=ManualClock)
    leases: MemoryLeases = field(default_factory=MemoryLeases)
    unavailable: bool = False


@dataclass
class Process:
    """One API process of the demo."""

    name: str
    store: Store
    pause: Callable[[float], Awaitable[object]]
    mentioned: list[str] = field(default_factory=list)

    async def take_or_renew(self, name: str, term: timedelta) -> bool:
        await asyncio.sleep(0)  # as if a thread asked the store
        if self.store.unavailable:
            raise StoreUnavailable("it is away")
        return self.store.leases.acquire(name, self.name, self.store.clock.now(), term)

    async def send(self, body: bytes) -> None:
        self.mentioned += [event["data"]["mentions"][0] for event in json.loads(body)]

    def traffic(self) -> DemoTraffic:
        return DemoTraffic(sink=self, leases=self, clock=self.store.clock, nonces=CountedNonces(), pause=self.pause)


async def no_pause(_: float) -> None:
    await asyncio.sleep(0)


async def endless_pause(_: float) -> None:
    await asyncio.Event().wait()


def test_storm_sends_all_its_mentions_of_the_star() -> None:
    async def run() -> list[str]:
        process = Process("api-1", Store(), no_pause)
        traffic = process.traffic()
        assert await traffic.start_storm(STORM_CELEBRITIES[1])
        assert traffic.storm_task
        await traffic.storm_task
        return process.mentioned

    assert asyncio.run(run()) == [STORM_CELEBRITIES[1]] * (STORM_RATE * STORM_SECONDS + 1)


def test_storm_of_another_process_blocks_a_second_one() -> None:
    async def run() -> None:
        store = Store()
        first, second = (Process(name, store, endless_pause).traffic() for name in ("api-1", "api-2"))
        assert await first.start_storm(STORM_CELEBRITIES[1])
        assert not await first.start_storm(STORM_CELEBRITIES[1])
        assert not await second.start_storm(STORM_CELEBRITIES[1])
        store.clock.advance(timedelta(seconds=STORM_SECONDS))
        assert await second.start_storm(STORM_CELEBRITIES[1])
        first.stop()
        second.stop()

    asyncio.run(run())


def test_two_requests_at_once_begin_one_storm() -> None:
    async def run() -> list[bool]:
        traffic = Process("api-1", Store(), endless_pause).traffic()
        begun = await asyncio.gather(
            traffic.start_storm(STORM_CELEBRITIES[1]), traffic.start_storm(STORM_CELEBRITIES[1])
        )
        traffic.stop()
        return [*begun]

    assert sorted(asyncio.run(run())) == [False, True]


def test_storm_without_a_store_fails() -> None:
    traffic = Process("api-1", Store(unavailable=True), endless_pause).traffic()
    with pytest.raises(StoreUnavailable):
        asyncio.run(traffic.start_storm(STORM_CELEBRITIES[1]))


def test_one_process_creates_the_ordinary_mentions() -> None:
    async def run() -> None:
        store, ticks = Store(), Ticks()
        processes = [Process(name, store, ticks.wait) for name in ("api-1", "api-2")]
        traffics = [process.traffic() for process in processes]
        for traffic in traffics:
            traffic.start_trickle()
        for _ in range(10):
            await ticks.pass_second(store)
        assert [len(process.mentioned) for process in processes] == [10, 0]
        assert {*processes[0].mentioned} <= {*TRICKLE_ACCOUNTS}

        traffics[0].stop()  # as if it had been killed: its lease runs out
        for _ in range(10):
            await ticks.pass_second(store)
        lost = int(TRICKLE_TERM.total_seconds()) - 1
        assert [len(process.mentioned) for process in processes] == [10, 10 - lost]
        traffics[1].stop()

    asyncio.run(run())


def test_ordinary_mentions_resume_after_a_store_outage() -> None:
    async def run() -> list[str]:
        store, ticks = Store(unavailable=True), Ticks()
        process = Process("api-1", store, ticks.wait)
        traffic = process.traffic()
        traffic.start_trickle()
        await ticks.pass_second(store)
        assert process.mentioned == []
        store.unavailable = False
        await ticks.pass_second(store)
        traffic.stop()
        return process.mentioned

    assert len(asyncio.run(run())) == 1


@dataclass
class Ticks:
    """Pauses that end when the test lets a second pass."""

    waiting: list["asyncio.Future[None]"] = field(default_factory=list)

    async def wait(self, _: float) -> None:
        self.waiting.append(asyncio.get_running_loop().create_future())
        await self.waiting[-1]

    async def pass_second(self, store: Store) -> None:
        await run_ready_tasks()
        store.clock.advance(timedelta(seconds=1))
        over, self.waiting = [future for future in self.waiting if not future.done()], []
        for future in over:
            future.set_result(None)
        await run_ready_tasks()


async def run_ready_tasks() -> None:
    """Return once every task waits for the test."""
    for _ in range(20):
        await asyncio.sleep(0)
