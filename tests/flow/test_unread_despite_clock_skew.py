"""With clocks three seconds off, bursts that become visible after a page are unread."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier import topics
from notifier.domain.bursts.sequencer import VISIBILITY_DEADLINE
from notifier.domain.ids import UserId
from notifier.flow.inbox.inbox import UncachedInbox
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync

KIM = UserId("kim")
SKEW = timedelta(seconds=3)


def sequence(stage: Stage, clock_offset: timedelta) -> None:
    clock = ManualClock(stage.state.clock.now() + clock_offset)
    for stream in topics.PARTITION_COUNTS:
        pump = stage.pump(stream, clock=clock)
        while pump.step():
            pass
        pump.consumer.close()


def see(tab: UncachedInbox) -> None:
    page = run_sync(tab.page(KIM))
    assert page.items == []
    assert page.seen is not None
    run_sync(tab.see(KIM, page.seen))


@pytest.mark.parametrize("delay", [timedelta(0), VISIBILITY_DEADLINE, timedelta(seconds=20)])
def test_slow_clock_of_coordinator_opens_no_seen_burst(delay: timedelta) -> None:
    stage = Stage()
    stage.tweet("nova")
    stage.pass_time(seconds=delay.total_seconds())
    see(stage.uncached_inbox())
    sequence(stage, -SKEW)
    assert run_sync(stage.uncached_inbox().badge(KIM)).count == 1


@pytest.mark.parametrize("after_page", [timedelta(0), timedelta(seconds=1), timedelta(seconds=2)])
def test_fast_clock_of_api_marks_no_later_burst_as_seen(after_page: timedelta) -> None:
    stage = Stage()
    ahead = ManualClock(stage.state.clock.now() + SKEW)
    see(replace(stage.uncached_inbox(), clock=ahead))
    stage.pass_time(seconds=after_page.total_seconds())
    stage.tweet("nova")
    sequence(stage, timedelta(0))
    stage.pass_time(seconds=10)
    assert run_sync(stage.uncached_inbox().badge(KIM)).count == 1
