"""Failed reads create no reference cycles, which an API process collects only seldom."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from notifier.adapters.sqlite.async_queries import SqliteReader
from notifier.domain.errors import StoreUnavailable
from notifier.flow.inbox.shared_loads import Singleflight
from notifier.flow.inbox.viewer_facts_invalidation_and_check import SharedVersionLookups
from notifier.ports.inbox_cache_freshness import VersionLookup

FAILURES = 50
ROUNDS = 5
"""A failure that leaves a cycle does so in every round. The first round also creates one-time objects.

Threads left by other tests in this process may leave cycles of their own in any round.
"""


class FailingLookups:
    async def look_up(self, scopes: object, *, may_wait: bool, users: object = ()) -> VersionLookup | None:
        await asyncio.sleep(0)
        raise StoreUnavailable("on purpose")


async def failing_load(keys: Sequence[int]) -> Mapping[int, int]:
    await asyncio.sleep(0)
    raise StoreUnavailable("on purpose")


def failing_read() -> None:
    raise StoreUnavailable("on purpose")


def failing_reader() -> Callable[[], Awaitable[object]]:
    reader = SqliteReader()
    return lambda: reader(failing_read)


def failing_singleflight() -> Callable[[], Awaitable[object]]:
    loads: Singleflight[int, int] = Singleflight()
    return lambda: loads.load([1, 2], failing_load)


def failing_load_anew() -> Callable[[], Awaitable[object]]:
    loads: Singleflight[int, int] = Singleflight()

    async def fail(*, after_another: bool) -> int:
        await asyncio.sleep(0)
        raise StoreUnavailable("on purpose")

    return lambda: loads.load_anew(1, fail)


def failing_shared_lookups() -> Callable[[], Awaitable[object]]:
    shared_lookups = SharedVersionLookups(lookups=FailingLookups(), max_wait=timedelta(seconds=60))
    return lambda: shared_lookups.look_up((), may_wait=False)


@pytest.mark.parametrize(
    "failing_call", [failing_reader, failing_singleflight, failing_load_anew, failing_shared_lookups]
)
def test_failed_reads_leave_no_cycles(failing_call: Callable[[], Callable[[], Awaitable[object]]]) -> None:
    async def fail() -> int:
        read, collected = failing_call(), list[int]()
        gc.freeze()  # what other tests left need not be walked in each round
        for _ in range(ROUNDS):
            gc.collect()
            gc.disable()
            for _ in range(FAILURES):
                with suppress(StoreUnavailable):
                    await read()
            await asyncio.sleep(0)
            collected.append(gc.collect())
            gc.enable()
        return min(collected)

    assert asyncio.run(fail()) < FAILURES
