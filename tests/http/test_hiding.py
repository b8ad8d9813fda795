"""What takes something back is done by itself, a few at a time, and nobody waits for ever."""

import asyncio
from dataclasses import dataclass, field

import pytest

from notifier.api.background.event_intake import HIDES_AT_ONCE, RetractionHiding
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.retraction import Cause, Retraction
from notifier.domain.ids import UserId
from tests.support.fakes.clock import START

WORD = Retraction(id=EventId("s", "1"), cause=Cause.ERASE, author=UserId("eve"), at=START)


@dataclass
class SlowStore:
    open: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0

    async def __call__(self, _: Retraction) -> None:
        self.begun += 1
        await self.open.wait()
        if self.begun == 1:
            raise ZeroDivisionError


def test_of_many_some_are_done_at_a_time_and_all_in_their_turn() -> None:
    async def run() -> None:
        store = SlowStore()
        hiding = RetractionHiding(hide_in_thread=store)
        asked = [asyncio.create_task(hiding.hide(WORD)) for _ in range(3 * HIDES_AT_ONCE)]
        await asyncio.sleep(0.01)
        assert store.begun == HIDES_AT_ONCE
        store.open.set()
        await asyncio.gather(*asked)
        assert store.begun == 3 * HIDES_AT_ONCE

    asyncio.run(run())


def test_while_the_store_hangs_the_answer_doesn_t_wait_for_a_turn() -> None:
    async def run() -> None:
        store = SlowStore()
        hiding = RetractionHiding(hide_in_thread=store, within=0.01)
        asked = [asyncio.create_task(hiding.hide(WORD)) for _ in range(HIDES_AT_ONCE)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await hiding.hide(WORD)
        assert (store.begun, not any(task.done() for task in asked)) == (HIDES_AT_ONCE, True)
        store.open.set()
        await asyncio.gather(*asked)

    asyncio.run(run())


def test_one_that_fails_gives_its_turn_back() -> None:
    async def run() -> None:
        store = SlowStore()
        store.open.set()
        hiding = RetractionHiding(hide_in_thread=store, turns=asyncio.Semaphore(1))
        with pytest.raises(ZeroDivisionError):
            await hiding.hide(WORD)
        await hiding.hide(WORD)
        assert store.begun == 2

    asyncio.run(run())
