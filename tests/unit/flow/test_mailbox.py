"""What other threads hand over to an event loop."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from notifier.mailbox import Mailbox


class CountedLoop(asyncio.SelectorEventLoop):
    """Counts how often another thread wakes it."""

    wakings = 0

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # of many types
        self.wakings += 1
        return super().call_soon_threadsafe(*args, **kwargs)


@pytest.fixture
def loop() -> Iterator[CountedLoop]:
    loop = CountedLoop()
    yield loop
    loop.close()


def test_loop_is_woken_once_for_all_that_arrived(loop: CountedLoop) -> None:
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


def test_nothing_is_left_behind_by_threads_that_race_with_the_loop(loop: CountedLoop) -> None:
    mailbox, arrived, many = Mailbox(loop), list[int](), 2_000
    ended = loop.create_future()

    def arrive(n: int) -> None:
        arrived.append(n)
        if len(arrived) == 4 * many:
            ended.set_result(None)

    def send(sender: int) -> None:
        for n in range(many):
            mailbox.put(partial(arrive, sender * many + n))
            mailbox.wake()

    with ThreadPoolExecutor(4) as threads:
        sending = [threads.submit(send, sender) for sender in range(4)]
        loop.run_until_complete(asyncio.wait_for(ended, 60))
        for one in sending:
            one.result()
    assert sorted(arrived) == list(range(4 * many))


def test_what_arrives_after_the_end_of_the_loop_is_dropped() -> None:
    loop = CountedLoop()
    mailbox = Mailbox(loop)
    loop.close()
    mailbox.put(lambda: None)
    mailbox.wake()
