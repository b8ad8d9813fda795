"""Reads that fail leave no cycles: an API process sets aside what lives, and collects cycles among it seldom."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from notifier.adapters.sqlite.async_reader import SqliteReader
from notifier.domain.errors import StoreUnavailable
from notifier.flow.inbox.invalidation import SharedVersionLookups
from notifier.flow.inbox.shared_loads import Singleflight
from notifier.ports.inbox_versions import VersionLookup

FAILURES = 50
ROUNDS = 5
"""A failure that leaves a cycle does so in every round. The first also makes what is made once, and threads that other
tests left in this process may leave cycles of their own in any."""


class FailingLooks:
    async def look_up(self, scopes: object, *, may_wait: bool, users: object = ()) -> VersionLookup | None:
        await asyncio.sleep(0)
        raise StoreUnavailable("on purpose")


async def failing_load(keys: Sequence[int]) -> Mapping[int, int]:
    await asyncio.sleep(0)
    raise StoreUnavailable("on purpose")


def failing_read() -> None:
    raise StoreUnavailable("on purpose")


def of_reader() -> Callable[[], Awaitable[object]]:
    reader = SqliteReader()
    return lambda: reader(failing_read)


def of_loads() -> Callable[[], Awaitable[object]]:
    loads: Singleflight[int, int] = Singleflight()
    return lambda: loads.load([1, 2], failing_load)


def of_looks() -> Callable[[], Awaitable[object]]:
    looks = SharedVersionLookups(lookups=FailingLooks(), within=timedelta(seconds=60))
    return lambda: looks.look_up((), may_wait=False)


@pytest.mark.parametrize("made", [of_reader, of_loads, of_looks])
def test_failures_leave_no_cycles(made: Callable[[], Callable[[], Awaitable[object]]]) -> None:
    async def fail() -> int:
        ask, found = made(), list[int]()
        for _ in range(ROUNDS):
            gc.collect()
            gc.disable()
            for _ in range(FAILURES):
                with suppress(StoreUnavailable):
                    await ask()
            await asyncio.sleep(0)
            found.append(gc.collect())
            gc.enable()
        return min(found)

    assert asyncio.run(fail()) < FAILURES
