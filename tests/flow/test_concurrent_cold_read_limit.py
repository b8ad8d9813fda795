"""Concurrent cold pages: few are read at once, others wait for a bounded time."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.concurrency_and_time_limits import Bulkhead, TooManyWaiting
from notifier.domain.ids import UserId
from notifier.flow.inbox.burst_walk import position_of
from notifier.flow.inbox.page_deadline_and_breaker import MAX_COLD_READS, NoDeadline, PageDeadline, new_cold_bulkhead
from tests.flow.two_api_processes import KIM, warm_processes
from tests.support.simulator.inbox_visits import run_sync

PATIENT = timedelta(minutes=1)


class Pages:
    """Cold pages that block until they are released."""

    def __init__(self, cold: Bulkhead | None = None) -> None:
        self.deadline = PageDeadline(PATIENT, cold or new_cold_bulkhead())
        self.reading, self.read, self.most_reading = 0, 0, 0
        self.release = asyncio.Event()

    async def open(self) -> None:
        async with self.deadline.slot(), self.deadline.limit(cold=True):
            self.reading += 1
            self.most_reading = max(self.most_reading, self.reading)
            await self.release.wait()
            self.reading -= 1
            self.read += 1


async def open_together(number: int) -> Pages:
    pages = Pages()
    tasks = [asyncio.create_task(pages.open()) for _ in range(number)]
    await asyncio.sleep(0)
    pages.release.set()
    await asyncio.gather(*tasks)
    return pages


def test_a_thousand_cold_pages_are_read_a_few_at_a_time() -> None:
    pages = asyncio.run(open_together(1_000))
    assert (pages.read, pages.most_reading) == (1_000, MAX_COLD_READS)


def test_cold_page_that_waits_too_long_is_refused() -> None:
    async def run() -> None:
        pages = Pages(Bulkhead(max_concurrent=MAX_COLD_READS, max_wait=timedelta(milliseconds=10)))
        tasks = [asyncio.create_task(pages.open()) for _ in range(MAX_COLD_READS)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyWaiting):
            await pages.open()
        pages.release.set()
        await asyncio.gather(*tasks)
        await pages.open()
        assert pages.read == MAX_COLD_READS + 1

    asyncio.run(run())


def test_cold_page_is_refused_at_once_when_too_many_wait() -> None:
    async def run() -> None:
        pages = Pages(Bulkhead(max_concurrent=MAX_COLD_READS, max_wait=PATIENT, max_waiting=1))
        tasks = [asyncio.create_task(pages.open()) for _ in range(MAX_COLD_READS + 1)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyWaiting, match="Too many waiting calls: 1"):
            await pages.open()
        pages.release.set()
        await asyncio.gather(*tasks)

    asyncio.run(run())


def test_warm_page_does_not_wait_for_cold_ones() -> None:
    async def run() -> None:
        pages = Pages()
        tasks = [asyncio.create_task(pages.open()) for _ in range(MAX_COLD_READS + 1)]
        await asyncio.sleep(0)
        async with pages.deadline.limit(cold=False):
            pages.release.set()
        await asyncio.gather(*tasks)

    asyncio.run(run())


class Full(NoDeadline):
    """Refuses every page because too many wait already."""

    def slot(self) -> AbstractAsyncContextManager[None]:
        raise TooManyWaiting("Too many waiting calls: 1000.")


def test_crowd_of_new_viewers_does_not_open_the_store_breaker() -> None:
    """Cached pages of other viewers are not replaced by partial ones, and they can still load older pages."""
    processes = warm_processes()
    inbox = processes.inboxes[0] = replace(processes.inboxes[0], deadline=Full())
    for _ in range(10):
        with pytest.raises(TooManyWaiting):
            processes.open(0, UserId("lee"))
    processes.stage.pass_time(minutes=16)
    with pytest.raises(TooManyWaiting):  # a viewer whose last page is too old waits like a new one
        processes.open(0)
    processes.inboxes[0] = replace(inbox, deadline=NoDeadline())
    processes.open(0)
    processes.inboxes[0] = inbox
    inbox.viewers.viewers[KIM].first_pages.clear()
    page = processes.open(0).page
    assert (page.partial, len(page.items)) == (False, 1)
    later = run_sync(inbox.open(KIM, after=position_of(page.items[0].entry))).page
    assert (later.partial, later.items) == (False, [])
