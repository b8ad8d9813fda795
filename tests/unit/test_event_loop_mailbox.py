"""Mailbox: calls that other threads hand over to an event loop."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from notifier.event_loop_mailbox import Mailbox


class CountedLoop(asyncio.SelectorEventLoop):
    """Counts how often another thread wakes the loop."""

    wakings = 0

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # overloaded in typeshed
        self.wakings += 1
        return super().call_soon_threadsafe(*args, **kwargs)


@pytest.fixture
def loop() -> Iterator[CountedLoop]:
    loop = CountedLoop()
    yield loop
    loop.close()


def test_loop_is_woken_once_for_all_waiting_calls(loop: CountedLoop) -> None:
    mailbox, arrived = Mailbox(loop), list[int]()
    for n in range(5):
        mailbox.put(partial(arrived.append, n))
        mailbox.wake()
    assert (loop.wakings, arrived) == (1, [])
    loop.run_until_complete(asyncio.sleep(0))
    assert arrived == [0, 1, 2, 3, 4]
    mailbox.put(partial(arrived.append, 5))
    mailbox.wake()
    loop.run_until_complete(asyncio.sleep(0))
    assert (loop.wakings, arrived[-1]) == (2, 5)


def test_threads_that_race_with_the_loop_lose_no_call(loop: CountedLoop) -> None:
    mailbox, arrived, per_sender = Mailbox(loop), list[int](), 2_000
    ended = loop.create_future()

    def arrive(n: int) -> None:
        arrived.append(n)
        if len(arrived) == 4 * per_sender:
            ended.set_result(None)

    def send(sender: int) -> None:
        for n in range(per_sender):
            mailbox.put(partial(arrive, sender * per_sender + n))
            mailbox.wake()

    with ThreadPoolExecutor(4) as threads:
        sending = [threads.submit(send, sender) for sender in range(4)]
        loop.run_until_complete(asyncio.wait_for(ended, 60))
        for future in sending:
            future.result()
    assert sorted(arrived) == list(range(4 * per_sender))


def test_call_after_the_loop_has_closed_is_dropped() -> None:
    loop = CountedLoop()
    mailbox = Mailbox(loop)
    loop.close()
    mailbox.put(lambda: None)
    mailbox.wake()
