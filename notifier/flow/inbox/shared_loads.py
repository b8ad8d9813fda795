"""Singleflight: concurrent requests for one key share a load."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

Load = Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]


class SharedLoads(Protocol[K, V]):
    async def load(self, keys: Sequence[K], load: Load[K, V]) -> Mapping[K, V]:
        """Return the values of the keys. Concurrent callers may share the load of a key."""
        ...

    async def load_anew(self, key: K, load: Callable[[], Awaitable[V]]) -> V:
        """Return the value of a load that begins after this call. Callers may share a load that has not begun."""
        ...

    def abandon(self) -> None:
        """Keep later callers of `load` from joining loads in progress. Current callers still get their values."""
        ...


class Singleflight(Generic[K, V]):
    """One instance per event loop. A canceled caller leaves its load running."""

    def __init__(self) -> None:
        self._flights: dict[K, asyncio.Task[Mapping[K, V]]] = {}
        self._begun: dict[K, asyncio.Task[V]] = {}
        """Loads of `load_anew` in progress, at most one per key."""
        self._waiting: dict[K, asyncio.Task[V]] = {}
        """Loads of `load_anew` that have not begun, at most one per key."""

    async def load(self, keys: Sequence[K], load: Load[K, V]) -> Mapping[K, V]:
        if new_keys := [key for key in keys if key not in self._flights]:
            self._start(new_keys, load)
        values = dict[K, V]()
        flights = {self._flights[key] for key in keys}
        while flights:
            values |= await _result_of(flights.pop())
        return {key: values[key] for key in keys if key in values}

    async def load_anew(self, key: K, load: Callable[[], Awaitable[V]]) -> V:
        if key not in self._waiting:
            self._plan(key, load)
        return await _result_of(self._waiting[key])

    def abandon(self) -> None:
        self._flights.clear()

    def _plan(self, key: K, load: Callable[[], Awaitable[V]]) -> None:
        task = asyncio.ensure_future(self._load_after(self._begun.get(key), key, load))
        self._waiting[key] = task
        task.add_done_callback(_retrieve_error)

    async def _load_after(self, earlier: asyncio.Task[V] | None, key: K, load: Callable[[], Awaitable[V]]) -> V:
        if earlier is not None:
            await asyncio.wait([earlier])
        task = self._begun[key] = self._waiting.pop(key)
        try:
            return await load()
        finally:
            if self._begun[key] is task:
                del self._begun[key]
            del task, earlier  # breaks a cycle: the error keeps this frame, and the task keeps the error

    def _start(self, keys: Sequence[K], load: Load[K, V]) -> None:
        task = asyncio.ensure_future(load(keys))
        self._flights |= dict.fromkeys(keys, task)
        task.add_done_callback(partial(self._finish, keys))

    def _finish(self, keys: Sequence[K], flight: asyncio.Task[Mapping[K, V]]) -> None:
        for key in keys:
            if self._flights.get(key) is flight:
                del self._flights[key]
        _retrieve_error(flight)


def _retrieve_error(flight: asyncio.Task[Any]) -> None:
    """Mark the error as retrieved: asyncio would log it if every caller was canceled."""
    if not flight.cancelled():
        flight.exception()


async def _result_of(flight: asyncio.Task[T]) -> T:
    try:
        return await asyncio.shield(flight)
    finally:
        del flight  # breaks a cycle: the error keeps this frame, and the task keeps the error


class DirectLoads(Generic[K, V]):
    """Calls `load` for each caller. For simulations and benchmarks."""

    async def load(self, keys: Sequence[K], load: Load[K, V]) -> Mapping[K, V]:
        return await load(keys)

    async def load_anew(self, key: K, load: Callable[[], Awaitable[V]]) -> V:
        return await load()

    def abandon(self) -> None:
        """Do nothing: no load is ever shared."""
