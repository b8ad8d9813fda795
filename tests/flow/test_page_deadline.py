"""A page has one deadline for all of its steps."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from typing import Any, cast

import pytest

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.inbox.page_deadline_and_breaker import COLD_FACTOR, PageDeadline
from notifier.ports.inbox import Timeline
from notifier.ports.viewers_preferences_user_blocks import People
from tests.flow.two_api_processes import KIM, Processes, warm_processes
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync

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


@dataclass(frozen=True)
class SlowSubject:
    """A timeline in which the partition of one subject does not answer."""

    timeline: Timeline
    subject: Subject

    def __getattr__(self, name: str) -> Any:
        return getattr(self.timeline, name)

    async def older_than(self, subjects: Collection[Subject], *arguments: Any) -> Sequence[Burst]:
        if self.subject in subjects:
            await asyncio.sleep(HANGING_SECONDS)
        return await self.timeline.older_than(subjects, *arguments)


@pytest.mark.parametrize("is_known", [False, True])
def test_slow_subject_leaves_a_partial_page(*, is_known: bool) -> None:
    """A known viewer gets the last page, and a new one the bursts of the inbox rows."""
    stage = Stage()
    stage.followed("kim", "lyra", sequence=1)
    stage.mention("nova")
    stage.deliver()
    stage.pass_time(minutes=1)
    stage.state.pull.wipe()
    warm = Processes(stage).inboxes[0]
    if is_known:
        assert not run_sync(warm.open(KIM)).page.partial
    warm.subject_cache.begin()
    slow = SlowSubject(timeline=warm.subject_cache.timeline, subject=Subject(Kind.MENTION, UserId("lyra")))
    warm.subject_cache.timeline = cast(Timeline, slow)
    answer = asyncio.run(replace(warm, deadline=PageDeadline(DEADLINE)).open(KIM))
    assert (answer.page.partial, [str(item.entry.key) for item in answer.page.items]) == (True, ["mention:nova#1"])
