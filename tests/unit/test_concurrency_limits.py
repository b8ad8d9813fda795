"""Concurrency limits: bounded executors, and a limit of calls in flight."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from threading import Event, Lock

import pytest

from notifier.api.request_threads import RequestThreads
from notifier.concurrency_and_time_limits import BoundedExecutor, Bulkhead, InFlightLimit, Threads, TooManyWaiting
from notifier.domain.errors import StoreUnavailable

SHORT, LONG = timedelta(milliseconds=10), timedelta(seconds=30)


@pytest.fixture
def threads() -> Iterator[Threads]:
    with closing(RequestThreads()) as request_threads:
        yield request_threads


class Calls:
    """Blocking calls that hang until they are released."""

    def __init__(self) -> None:
        self.release, self._lock = Event(), Lock()
        self.running = self.most = self.ended = 0

    def hang(self) -> None:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.release.wait()
        with self._lock:
            self.running -= 1
            self.ended += 1


def bounded(threads: Threads, wait: timedelta = LONG) -> BoundedExecutor:
    return BoundedExecutor(threads=threads, bulkhead=Bulkhead(max_concurrent=2, max_wait=wait))


async def wait_until_running(calls: Calls, count: int) -> None:
    while calls.running < count:
        await asyncio.sleep(0.001)


def test_calls_beyond_the_limit_wait_for_a_slot(threads: Threads) -> None:
    async def run() -> None:
        calls, executor = Calls(), bounded(threads)
        tasks = [asyncio.create_task(executor.run(calls.hang)) for _ in range(6)]
        await wait_until_running(calls, 2)
        assert executor.bulkhead.waiting_count == 4
        calls.release.set()
        await asyncio.gather(*tasks)
        assert (calls.most, calls.ended) == (2, 6)

    asyncio.run(run())


def test_call_that_waits_too_long_is_refused(threads: Threads) -> None:
    async def run() -> None:
        calls, executor = Calls(), bounded(threads, SHORT)
        tasks = [asyncio.create_task(executor.run(calls.hang)) for _ in range(2)]
        await wait_until_running(calls, 2)
        with pytest.raises(TooManyWaiting, match=r"All 2 slots were busy for 0\.01 s\."):
            await executor.run(calls.hang)
        calls.release.set()
        await asyncio.gather(*tasks)
        assert await executor.run(len, "abc") == 3

    asyncio.run(run())


def test_failed_call_returns_its_slot(threads: Threads) -> None:
    async def run() -> None:
        executor = bounded(threads, SHORT)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await executor.run(divmod, 1, 0)

    asyncio.run(run())


def test_cancelled_caller_holds_its_slot_until_the_call_ends(threads: Threads) -> None:
    """Otherwise clients that give up and retry would fill all threads with calls that hang."""

    async def run() -> None:
        calls, executor = Calls(), bounded(threads, SHORT)
        tasks = [asyncio.create_task(executor.run(calls.hang)) for _ in range(2)]
        await wait_until_running(calls, 2)
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        with pytest.raises(TooManyWaiting):
            await executor.run(len, "abc")
        calls.release.set()
        async with asyncio.timeout(10):
            while executor.bulkhead.is_full:
                await asyncio.sleep(0.001)
        assert await executor.run(len, "abc") == 3

    asyncio.run(run())


def test_callers_beyond_the_queue_are_refused_at_once() -> None:
    async def run() -> None:
        bulkhead = Bulkhead(max_concurrent=1, max_wait=LONG, max_waiting=1)
        async with bulkhead.slot():
            waiting = asyncio.create_task(bulkhead.acquire())
            await asyncio.sleep(0)
            with pytest.raises(TooManyWaiting, match="Too many waiting calls: 1"):
                await bulkhead.acquire()
        await waiting

    asyncio.run(run())


def test_calls_in_flight_are_limited() -> None:
    async def run() -> None:
        limit = InFlightLimit(max_calls=2, deadline=LONG)
        calls = asyncio.create_task(limit.run(2, asyncio.sleep, 30))
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="Too many running calls: 2"):
            await limit.run(1, asyncio.sleep, 0)
        calls.cancel()
        with suppress(asyncio.CancelledError):
            await calls
        assert await limit.run(1, asyncio.sleep, 0, "answer") == "answer"

    asyncio.run(run())


def test_call_in_flight_ends_with_its_deadline() -> None:
    async def run() -> None:
        limit = InFlightLimit(max_calls=1, deadline=SHORT)
        with pytest.raises(StoreUnavailable, match=r"No answer within 0\.01 s\."):
            await limit.run(1, asyncio.sleep, 30)
        assert limit.in_flight == 0

    asyncio.run(run())
