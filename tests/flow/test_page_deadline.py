"""A page has one deadline for all of its steps."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any, cast

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.flow.inbox.store_breaker import COLD_FACTOR, PageDeadline
from notifier.ports.viewer_facts import People
from tests.flow.two_api_processes import KIM, warm_processes

DEADLINE = timedelta(milliseconds=200)
HANGING_SECONDS = 60.0
"""Far more than any deadline, and than a busy machine adds to one."""


class HangingPort:
    def __getattr__(self, name: str) -> Any:
        async def hang(*_: object, **__: object) -> None:
            await asyncio.sleep(HANGING_SECONDS)

        return hang


@pytest.mark.parametrize("cold", [False, True])
def test_step_gets_what_earlier_steps_left_of_the_deadline(*, cold: bool) -> None:
    async def seconds_until_expiry(spent: timedelta) -> float:
        began = monotonic()
        with pytest.raises(StoreUnavailable):
            async with PageDeadline(DEADLINE).limit(cold=cold, spent=spent):
                await asyncio.sleep(HANGING_SECONDS)
        return monotonic() - began

    whole = (DEADLINE * COLD_FACTOR if cold else DEADLINE).total_seconds()
    assert whole <= asyncio.run(seconds_until_expiry(timedelta(0))) < HANGING_SECONDS / 2
    assert asyncio.run(seconds_until_expiry(timedelta(seconds=whole / 2))) >= whole / 2
    for clock_step in (timedelta(hours=1), timedelta(hours=-1)):  # the clock was set while an earlier step ran
        assert asyncio.run(seconds_until_expiry(clock_step)) < HANGING_SECONDS / 2


def test_known_viewer_gets_the_last_page_at_the_deadline() -> None:
    warm = warm_processes().inboxes[0]
    warm.viewers.distrust(warm.clock.now())
    facts = replace(warm.facts, people=cast(People, HangingPort()))
    inbox = replace(warm, facts=facts, deadline=PageDeadline(DEADLINE))
    began = monotonic()
    answer = asyncio.run(inbox.open(KIM))
    assert (answer.page.partial, len(answer.page.items), answer.badge) == (True, 1, None)
    assert monotonic() - began < HANGING_SECONDS / 2
