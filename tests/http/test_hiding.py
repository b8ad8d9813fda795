"""What takes something back is done by itself, a few at a time, and nobody waits for ever."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from notifier.api.background.limiters import AT_ONCE, Hiding
from notifier.api.threads import Threads
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.retraction import Cause, Retraction
from notifier.domain.ids import UserId
from notifier.flow.intake.gateway import Gateway
from notifier.metrics import Metrics
from tests.support.fakes.cache import MemoryRecent
from tests.support.fakes.clock import START, ManualClock
from tests.support.fakes.event_log import MemoryLog
from tests.support.fakes.threads import HeldThreads, InlineThreads

WORD = Retraction(id=EventId("s", "1"), cause=Cause.ERASE, author=UserId("eve"), at=START)


@dataclass(slots=True)
class Settled:
    """Settles retractions, and fails for the first `failures`."""

    failures: int = 0
    retractions: list[Retraction] = field(default_factory=list)

    def __call__(self, retractions: Collection[Retraction]) -> None:
        self.retractions += retractions
        if len(self.retractions) <= self.failures:
            raise ZeroDivisionError


def hiding(settled: Settled, threads: Threads, **bounds: Any) -> Hiding:
    clock = ManualClock()
    gateway = Gateway(log=MemoryLog(clock), recent=MemoryRecent(clock), clock=clock, metrics=Metrics(), settle=settled)
    return Hiding(gateway=gateway, threads=threads, **bounds)


def test_of_many_some_are_done_at_a_time_and_all_in_their_turn() -> None:
    async def run() -> None:
        store, settled = HeldThreads(), Settled()
        hide = hiding(settled, store)
        asked = [asyncio.create_task(hide(WORD)) for _ in range(3 * AT_ONCE)]
        await asyncio.sleep(0.01)
        assert store.begun == AT_ONCE
        store.open.set()
        await asyncio.gather(*asked)
        assert store.begun == len(settled.retractions) == 3 * AT_ONCE

    asyncio.run(run())


def test_while_the_store_hangs_the_answer_doesn_t_wait_for_a_turn() -> None:
    async def run() -> None:
        store = HeldThreads()
        hide = hiding(Settled(), store, within=0.01)
        asked = [asyncio.create_task(hide(WORD)) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await hide(WORD)
        assert (store.begun, not any(task.done() for task in asked)) == (AT_ONCE, True)
        store.open.set()
        await asyncio.gather(*asked)

    asyncio.run(run())


def test_one_that_fails_gives_its_turn_back() -> None:
    async def run() -> None:
        settled = Settled(failures=1)
        hide = hiding(settled, InlineThreads(), turns=asyncio.Semaphore(1))
        with pytest.raises(ZeroDivisionError):
            await hide(WORD)
        await hide(WORD)
        assert settled.retractions == [WORD, WORD]

    asyncio.run(run())
