"""Singleflight: concurrent requests for one key share a load."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
T = TypeVar("T")

Load = Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]

MAX_WAIT_SECONDS = 0.05
"""Longest wait of a load for an earlier load of the same key. A load that hangs must not delay all later ones."""


class LoadAnew(Protocol[V_co]):
    def __call__(self, *, after_another: bool) -> Awaitable[V_co]:
        """Load the value. `after_another`: another load of the key was in progress when this one was requested."""
        ...


class SharedLoads(Protocol[K, V]):
    async def load(self, keys: Sequence[K], load: Load[K, V]) -> Mapping[K, V]:
        """Return the values of the keys. Concurrent callers may share the load of a key."""
        ...

    async def load_anew(self, key: K, load: LoadAnew[V]) -> V:
        """Return the value of a load that begins after this call. Callers may share a load that has not begun."""
        ...

    def abandon(self) -> None:
        """Keep later callers of `load` from joining loads in progress. Current callers still get their values."""
        ...


class Singleflight(Generic[K, V]):
    """One instance per event loop. A canceled caller leaves its load running for the other callers."""

    def __init__(self) -> None:
        self._flights: dict[K, asyncio.Task[Mapping[K, V]]] = {}
        self._begun: dict[K, _Flight[V]] = {}
        """Loads of `load_anew` in progress: the latest of each key."""
        self._planned: dict[K, _Flight[V]] = {}
        """Loads of `load_anew` that have not begun, at most one per key."""

    async def load(self, keys: Sequence[K], load: Load[K, V]) -> Mapping[K, V]:
        if new_keys := [key for key in keys if key not in self._flights]:
            self._start(new_keys, load)
        values = dict[K, V]()
        flights = {self._flights[key] for key in keys}
        while flights:
            values |= await _result_of(flights.pop())
        return {key: values[key] for key in keys if key in values}

    async def load_anew(self, key: K, load: LoadAnew[V]) -> V:
        flight = self._planned.get(key) or self._plan(key, load)
        flight.caller_count += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.caller_count -= 1
            if not flight.caller_count:
                self._cancel(key, flight)
            del flight  # breaks a cycle: the error keeps this frame, and the task keeps the error

    def abandon(self) -> None:
        self._flights.clear()

    def _plan(self, key: K, load: LoadAnew[V]) -> "_Flight[V]":
        earlier = self._begun.get(key)
        task = asyncio.ensure_future(self._load_after(earlier.task if earlier else None, key, load))
        task.add_done_callback(_retrieve_error)
        flight = self._planned[key] = _Flight(task)
        return flight

    async def _load_after(self, earlier: asyncio.Task[V] | None, key: K, load: LoadAnew[V]) -> V:
        if earlier is not None:
            await asyncio.wait([earlier], timeout=MAX_WAIT_SECONDS)
        flight = self._begun[key] = self._planned.pop(key)
        try:
            return await load(after_another=earlier is not None)
        finally:
            if self._begun.get(key) is flight:
                del self._begun[key]
            del flight, earlier  # breaks the same cycle

    def _cancel(self, key: K, flight: "_Flight[V]") -> None:
        """Stop a load that has no callers left, unless it has ended."""
        if self._planned.get(key) is flight:  # a canceled load must get no new callers
            del self._planned[key]
        flight.task.cancel()

    def _start(self, keys: Sequence[K], load: Load[K, V]) -> None:
        task = asyncio.ensure_future(load(keys))
        self._flights |= dict.fromkeys(keys, task)
        task.add_done_callback(partial(self._finish, keys))

    def _finish(self, keys: Sequence[K], flight: asyncio.Task[Mapping[K, V]]) -> None:
        for key in keys:
            if self._flights.get(key) is flight:
                del self._flights[key]
        _retrieve_error(flight)


@dataclass(eq=False, slots=True)
class _Flight(Generic[V]):
    """A load of `load_anew`."""

    task: asyncio.Task[V]
    caller_count: int = 0


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

    async def load_anew(self, key: K, load: LoadAnew[V]) -> V:
        return await load(after_another=False)

    def abandon(self) -> None:
        """Do nothing: no load is ever shared."""
