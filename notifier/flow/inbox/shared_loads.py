"""Singleflight: concurrent misses of one key share one load."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Load = Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]


class SharedLoads(Protocol[K, V]):
    async def load(self, keys: Sequence[K], load: Load[K, V]) -> Mapping[K, V]:
        """Return the values of the keys. Concurrent callers may share the load of a key."""
        ...

    def abandon(self) -> None:
        """Detach the loads in progress: later callers do not join them; current callers still get their values."""
        ...


class Singleflight(Generic[K, V]):
    """One instance per event loop. A canceled caller leaves its load running for the other callers."""

    def __init__(self) -> None:
        self._flights: dict[K, asyncio.Task[Mapping[K, V]]] = {}

    async def load(self, keys: Sequence[K], load: Load[K, V]) -> Mapping[K, V]:
        if new_keys := [key for key in keys if key not in self._flights]:
            self._start(new_keys, load)
        values = dict[K, V]()
        flights = {self._flights[key] for key in keys}
        while flights:
            values |= await _result_of(flights.pop())
        return {key: values[key] for key in keys if key in values}

    def abandon(self) -> None:
        self._flights.clear()

    def _start(self, keys: Sequence[K], load: Load[K, V]) -> None:
        task = asyncio.ensure_future(load(keys))
        self._flights |= dict.fromkeys(keys, task)
        task.add_done_callback(partial(self._finish, keys))

    def _finish(self, keys: Sequence[K], flight: asyncio.Task[Mapping[K, V]]) -> None:
        for key in keys:
            if self._flights.get(key) is flight:
                del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # marks the exception as retrieved, even if every caller was canceled


async def _result_of(flight: asyncio.Task[Mapping[K, V]]) -> Mapping[K, V]:
    try:
        return await asyncio.shield(flight)
    finally:
        del flight  # breaks a cycle: the error keeps this frame, and the task keeps the error


class DirectLoads(Generic[K, V]):
    """Calls `load` for each caller. For processes without concurrent requests, and for simulations."""

    async def load(self, keys: Sequence[K], load: Load[K, V]) -> Mapping[K, V]:
        return await load(keys)

    def abandon(self) -> None:
        """Do nothing: no load is ever shared."""
