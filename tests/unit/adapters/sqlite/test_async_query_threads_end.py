"""Threads of a SQLite reader end once the reader is dropped."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from time import sleep

import pytest

from notifier.adapters.sqlite.async_queries import SqliteReader


class Store:
    """Owner of a reader, whose query is a method of the owner, as in the product."""

    def __init__(self) -> None:
        self.reader = SqliteReader(thread_count=1)

    def read(self) -> int:
        return threading.get_ident()

    def read_slowly(self) -> int:
        sleep(0.1)
        return threading.get_ident()


async def _read(store: Store) -> int:
    return await store.reader(store.read)


async def _read_and_stop_waiting(store: Store) -> int:
    """Let a query wait behind a slow one, and cancel it before its turn."""
    slow = asyncio.ensure_future(store.reader(store.read_slowly))
    queued = asyncio.ensure_future(store.reader(store.read))
    await asyncio.sleep(0)
    queued.cancel()
    return await slow


@pytest.mark.parametrize("read", [_read, _read_and_stop_waiting])
def test_threads_of_a_dropped_reader_end(read: Callable[[Store], Coroutine[None, None, int]]) -> None:
    store = Store()
    thread_id = asyncio.run(read(store))
    [thread] = [thread for thread in threading.enumerate() if thread.ident == thread_id]
    del store
    gc.collect()
    thread.join(timeout=20)
    assert not thread.is_alive()
