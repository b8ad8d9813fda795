"""A slow version lookup does not delay viewers who have a cached page."""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from time import monotonic

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import UserId
from notifier.flow.inbox.viewer_facts_invalidation import SharedVersionLookups
from notifier.ports.inbox_versions import Scope, VersionLookup

WITHIN = timedelta(milliseconds=200)
SLOW_S = 5.0


class SlowLooks:
    async def look_up(
        self, scopes: Collection[Scope], *, may_wait: bool, users: Collection[UserId] = ()
    ) -> VersionLookup | None:
        await asyncio.sleep(SLOW_S)
        return VersionLookup()


async def waited(looks: SharedVersionLookups, after: float) -> float:
    await asyncio.sleep(after)
    began = monotonic()
    try:
        await looks.look_up((), may_wait=False)
    except StoreUnavailable:
        return monotonic() - began
    raise AssertionError("the lookup returned")


def test_known_user_waits_at_most_until_the_deadline() -> None:
    async def run() -> list[float]:
        looks = SharedVersionLookups(lookups=SlowLooks(), max_wait=WITHIN)
        patient = asyncio.ensure_future(looks.look_up((), may_wait=True))
        await asyncio.sleep(0)
        waits = await asyncio.gather(*(waited(looks, after) for after in (0.0, 0.05, 0.5)))
        patient.cancel()
        return waits

    assert max(asyncio.run(run())) < SLOW_S / 2
