"""Threads that run SQLite queries for coroutines."""

import asyncio
import gc
import threading

from notifier.adapters.sqlite.async_queries import SqliteReader


class Store:
    """Owner of a reader, whose query is a method of the owner, as in the product."""

    def __init__(self) -> None:
        self.reader = SqliteReader(thread_count=1)

    def read(self) -> int:
        return threading.get_ident()


async def _read(store: Store) -> int:
    return await store.reader(store.read)


def test_threads_of_a_dropped_reader_end() -> None:
    store = Store()
    thread_id = asyncio.run(_read(store))
    [thread] = [thread for thread in threading.enumerate() if thread.ident == thread_id]
    del store
    gc.collect()
    thread.join(timeout=20)
    assert not thread.is_alive()
