"""Loads that requests share, and loads that begin after the request."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.flow.inbox.shared_loads import MAX_WAIT_SECONDS, Singleflight


class Loads:
    """Numbered loads that end when the test releases them."""

    def __init__(self) -> None:
        self.flights: Singleflight[str, int] = Singleflight()
        self.begun: list[asyncio.Event] = []
        self.after_another: list[bool] = []
        self.canceled: list[int] = []
        self.fails = False

    async def load(self, *, after_another: bool) -> int:
        number = len(self.begun)
        self.begun.append(asyncio.Event())
        self.after_another.append(after_another)
        try:
            await self.begun[number].wait()
        except asyncio.CancelledError:
            self.canceled.append(number)
            raise
        if self.fails:
            raise StoreUnavailable(str(number))
        return number

    def request(self, key: str = "kim") -> "asyncio.Task[int]":
        return asyncio.create_task(self.flights.load_anew(key, self.load))

    def end(self, number: int) -> None:
        self.begun[number].set()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def run(test: Callable[[Loads], Awaitable[None]]) -> None:
    async def in_loop() -> None:
        await test(Loads())

    asyncio.run(in_loop())


def test_concurrent_requests_share_a_load() -> None:
    async def scenario(loads: Loads) -> None:
        requests = [loads.request() for _ in range(5)]
        await settle()
        loads.end(0)
        assert await asyncio.gather(*requests) == [0] * 5

    run(scenario)


def test_requests_during_a_load_share_the_next_one() -> None:
    async def scenario(loads: Loads) -> None:
        first = loads.request()
        await settle()
        later = [loads.request() for _ in range(5)]
        await settle()
        assert len(loads.begun) == 1  # one at a time
        loads.end(0)
        await settle()
        assert len(loads.begun) == 2
        loads.end(1)
        assert (await first, await asyncio.gather(*later)) == (0, [1] * 5)
        assert loads.after_another == [False, True]

    run(scenario)


def test_keys_do_not_wait_for_each_other() -> None:
    async def scenario(loads: Loads) -> None:
        requests = [loads.request(key) for key in ("kim", "lee")]
        await settle()
        assert len(loads.begun) == 2
        loads.end(0)
        loads.end(1)
        assert await asyncio.gather(*requests) == [0, 1]

    run(scenario)


def test_failure_reaches_all_its_requests_and_not_the_next_ones() -> None:
    async def scenario(loads: Loads) -> None:
        failed = [loads.request() for _ in range(2)]
        await settle()
        next_request = loads.request()
        await settle()
        loads.fails = True
        loads.end(0)
        for request in failed:
            with pytest.raises(StoreUnavailable):
                await request
        await settle()
        loads.fails = False
        loads.end(1)
        assert await next_request == 1

    run(scenario)


def test_canceled_request_leaves_the_load_to_the_others() -> None:
    async def scenario(loads: Loads) -> None:
        canceled, remaining = loads.request(), loads.request()
        await settle()
        canceled.cancel()
        with suppress(asyncio.CancelledError):
            await canceled
        loads.end(0)
        assert (await remaining, loads.canceled) == (0, [])

    run(scenario)


def test_load_without_callers_is_canceled() -> None:
    async def scenario(loads: Loads) -> None:
        first = loads.request()
        await settle()
        planned = loads.request()
        await settle()
        for request in (planned, first):
            request.cancel()
            with suppress(asyncio.CancelledError):
                await request
        await settle()
        assert (loads.canceled, len(loads.begun)) == ([0], 1)
        next_request = loads.request()
        await settle()
        loads.end(1)
        assert await next_request == 1

    run(scenario)


def test_load_that_hangs_delays_the_next_one_only_for_a_while() -> None:
    async def scenario(loads: Loads) -> None:
        hanging = loads.request()
        await settle()
        next_request = loads.request()
        await asyncio.sleep(MAX_WAIT_SECONDS)
        while len(loads.begun) < 2:
            await asyncio.sleep(0.01)
        loads.end(1)
        assert (await next_request, hanging.done()) == (1, False)
        loads.end(0)
        assert await hanging == 0

    run(scenario)
