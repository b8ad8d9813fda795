"""Retractions are settled before the response, unless the store exceeds the time limit."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event

import pytest

from notifier.api.background.event_intake import RetractionHiding
from notifier.api.request_threads import MAX_CALLS_OF_A_KIND, RequestThreads, limited_threads
from notifier.concurrency_and_time_limits import Threads
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.ids import UserId
from tests.support.fakes.clock_and_nonces import START

RETRACTION = Retraction(id=EventId("s", "1"), cause=RetractionCause.ERASE, author=UserId("eve"), at=START)


@dataclass
class SlowStore:
    open: Event = field(default_factory=Event)
    settled: list[Retraction] = field(default_factory=list)

    def settle(self, retractions: Sequence[Retraction]) -> None:
        self.open.wait()
        self.settled += retractions


@pytest.fixture
def threads() -> Iterator[Threads]:
    with closing(RequestThreads()) as threads:
        yield threads


def test_retraction_is_settled_before_the_response(threads: Threads) -> None:
    store = SlowStore()
    store.open.set()
    asyncio.run(RetractionHiding(hide_all=store.settle, threads=limited_threads(threads)).hide(RETRACTION))
    assert store.settled == [RETRACTION]


def test_response_does_not_wait_for_a_hanging_store(threads: Threads) -> None:
    async def run() -> None:
        store = SlowStore()
        hiding = RetractionHiding(hide_all=store.settle, threads=limited_threads(threads, timedelta(milliseconds=10)))
        tasks = [asyncio.create_task(hiding.hide(RETRACTION)) for _ in range(MAX_CALLS_OF_A_KIND)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await hiding.hide(RETRACTION)
        assert not any(task.done() for task in tasks)
        store.open.set()
        await asyncio.gather(*tasks)
        assert len(store.settled) == MAX_CALLS_OF_A_KIND

    asyncio.run(run())
