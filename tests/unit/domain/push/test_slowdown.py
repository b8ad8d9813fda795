"""Ease: what slow tabs and a store under pressure leave of the pace of alerts."""

from datetime import datetime, timedelta

import pytest

from notifier.domain.errors import CacheUnavailable
from notifier.domain.push.rate_limit import MIN_SLOWDOWN, SLOW_INBOX, STUCK_INBOX, slowdown
from notifier.flow.push.rate_limiter import Slowdown
from notifier.metrics import Metrics
from tests.support.examples import SECOND
from tests.support.fakes.cache import MemoryPressure
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.push import MemoryTabReport


@pytest.mark.parametrize(
    ("tab", "pressure", "left"),
    [
        (None, 0, 1),
        (SLOW_INBOX, 0, 1),
        (SLOW_INBOX * 2.5, 0, 0.525),
        (STUCK_INBOX, 0, MIN_SLOWDOWN),
        (100 * STUCK_INBOX, 0, MIN_SLOWDOWN),
        (None, 0.5, 0.525),
        (SLOW_INBOX, 1, MIN_SLOWDOWN),
        (SLOW_INBOX * 2.5, 0.1, 0.525),
    ],
)
def test_the_worse_of_both_decides(tab: timedelta | None, pressure: float, left: float) -> None:
    assert slowdown(tab, pressure) == pytest.approx(left)


class Away(MemoryTabReport):
    def worst(self) -> timedelta | None:
        raise CacheUnavailable


def easing(clock: ManualClock, tabs: MemoryTabReport) -> Slowdown:
    return Slowdown(inbox_latency=tabs, backpressure=MemoryPressure(clock), metrics=Metrics())


def test_it_is_asked_once_a_second_and_told_to_operators() -> None:
    clock = ManualClock()
    tabs = MemoryTabReport(clock)
    left = easing(clock, tabs)
    assert left(clock.now()) == 1
    tabs.publish("a", STUCK_INBOX, 10 * SECOND)
    assert left(clock.now() + 0.9 * SECOND) == 1
    assert left(clock.now() + SECOND) == MIN_SLOWDOWN
    assert left.metrics.registry.get_sample_value("notifier_push_ease_ratio") == MIN_SLOWDOWN


def test_where_nobody_can_be_asked_nothing_is_held_back() -> None:
    clock = ManualClock()
    left = easing(clock, Away(clock))
    left.factor = MIN_SLOWDOWN
    assert left(clock.now()) == 1
    assert isinstance(left.read_at, datetime)
