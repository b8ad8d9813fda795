"""Many pages that are cold at once: a few are read at a time, and the others wait for a bounded time."""

import asyncio
from datetime import timedelta

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.flow.inbox import deadline
from notifier.flow.inbox.deadline import AT_ONCE, PageDeadline

PATIENT = timedelta(minutes=1)


class Pages:
    """Cold pages that are read until they are let go."""

    def __init__(self) -> None:
        self.deadline = PageDeadline(PATIENT)
        self.reading, self.read, self.most = 0, 0, 0
        self.let_go = asyncio.Event()

    async def open(self) -> None:
        async with self.deadline.limit(cold=True):
            self.reading += 1
            self.most = max(self.most, self.reading)
            await self.let_go.wait()
            self.reading -= 1
            self.read += 1


async def opened(number: int) -> Pages:
    pages = Pages()
    going = [asyncio.create_task(pages.open()) for _ in range(number)]
    await asyncio.sleep(0)
    pages.let_go.set()
    await asyncio.gather(*going)
    return pages


def test_a_thousand_cold_pages_are_read_a_few_at_a_time() -> None:
    pages = asyncio.run(opened(1_000))
    assert (pages.read, pages.most) == (1_000, AT_ONCE)


def test_cold_page_that_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "WAITS", 0.01)

    async def run() -> None:
        pages = Pages()
        going = [asyncio.create_task(pages.open()) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            await pages.open()
        pages.let_go.set()
        await asyncio.gather(*going)
        await pages.open()
        assert pages.read == AT_ONCE + 1

    asyncio.run(run())


def test_cold_page_behind_too_many_others_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "MOST_WAITING", 1)

    async def run() -> None:
        pages = Pages()
        going = [asyncio.create_task(pages.open()) for _ in range(AT_ONCE + 1)]
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="1 others wait already"):
            await pages.open()
        pages.let_go.set()
        await asyncio.gather(*going)

    asyncio.run(run())


def test_warm_page_waits_for_no_cold_one() -> None:
    async def run() -> None:
        pages = Pages()
        going = [asyncio.create_task(pages.open()) for _ in range(AT_ONCE + 1)]
        await asyncio.sleep(0)
        async with pages.deadline.limit(cold=False):
            pages.let_go.set()
        await asyncio.gather(*going)

    asyncio.run(run())
