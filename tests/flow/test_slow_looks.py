"""A look-up that is slow holds up nobody who has something to show instead."""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from time import monotonic

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import UserId
from notifier.flow.inbox.invalidation import SharedLooks
from notifier.ports.inbox_versions import Scope, VersionLook

WITHIN = timedelta(milliseconds=200)
SLOW_S = 5.0


class SlowLooks:
    async def look(
        self, scopes: Collection[Scope], *, patient: bool, users: Collection[UserId] = ()
    ) -> VersionLook | None:
        await asyncio.sleep(SLOW_S)
        return VersionLook()


async def waited(looks: SharedLooks, after: float) -> float:
    await asyncio.sleep(after)
    began = monotonic()
    try:
        await looks.look((), patient=False)
    except StoreUnavailable:
        return monotonic() - began
    raise AssertionError("it was answered")


def test_known_user_waits_no_longer_than_the_deadline_whenever_the_request_comes() -> None:
    async def ask() -> list[float]:
        looks = SharedLooks(looks=SlowLooks(), within=WITHIN)
        patient = asyncio.ensure_future(looks.look((), patient=True))
        await asyncio.sleep(0)
        found = await asyncio.gather(*(waited(looks, after) for after in (0.0, 0.05, 0.5)))
        patient.cancel()
        return found

    assert max(asyncio.run(ask())) < SLOW_S / 2
