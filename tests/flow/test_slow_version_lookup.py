"""A slow version lookup does not delay viewers who have a cached page."""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from time import monotonic

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import UserId
from notifier.flow.inbox.viewer_facts_invalidation_and_check import SharedVersionLookups
from notifier.ports.inbox_cache_freshness import Scope, VersionLookup

MAX_WAIT = timedelta(milliseconds=200)
LOOKUP_SECONDS = 5.0


class SlowLookups:
    async def look_up(
        self, scopes: Collection[Scope], *, may_wait: bool, users: Collection[UserId] = ()
    ) -> VersionLookup | None:
        await asyncio.sleep(LOOKUP_SECONDS)
        return VersionLookup()


async def waited(lookups: SharedVersionLookups, after: float) -> float:
    await asyncio.sleep(after)
    began = monotonic()
    try:
        await lookups.look_up((), may_wait=False)
    except StoreUnavailable:
        return monotonic() - began
    raise AssertionError("the lookup returned")


def test_known_user_does_not_wait_for_a_slow_lookup() -> None:
    async def run() -> list[float]:
        lookups = SharedVersionLookups(lookups=SlowLookups(), max_wait=MAX_WAIT)
        patient = asyncio.ensure_future(lookups.look_up((), may_wait=True))
        await asyncio.sleep(0)
        waits = await asyncio.gather(*(waited(lookups, after) for after in (0.0, 0.05, 0.5)))
        patient.cancel()
        return waits

    waits = asyncio.run(run())
    assert min(waits) >= MAX_WAIT.total_seconds() * 0.95  # also for callers during the look-up; clocks are coarse
    assert max(waits) < LOOKUP_SECONDS / 2  # far more than MAX_WAIT, for a busy machine
