"""Slowdown: how much slow inboxes and store backpressure reduce the alert rate."""

from datetime import datetime, timedelta

import pytest

from notifier.domain.errors import CacheUnavailable
from notifier.domain.push.rate_limit import MIN_SLOWDOWN, SLOW_INBOX_LATENCY, STUCK_INBOX_LATENCY, slowdown
from notifier.flow.push.rate_limiter import Slowdown
from notifier.metrics import Metrics
from tests.support.domain_examples import SECOND
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.push import MemoryInboxLatencyReport
from tests.support.fakes.recent_events_and_load_limits import MemoryBackpressure


@pytest.mark.parametrize(
    ("latency", "pressure", "ratio"),
    [
        (None, 0, 1),
        (SLOW_INBOX_LATENCY, 0, 1),
        (SLOW_INBOX_LATENCY * 2.5, 0, 0.525),
        (STUCK_INBOX_LATENCY, 0, MIN_SLOWDOWN),
        (100 * STUCK_INBOX_LATENCY, 0, MIN_SLOWDOWN),
        (None, 0.5, 0.525),
        (SLOW_INBOX_LATENCY, 1, MIN_SLOWDOWN),
        (SLOW_INBOX_LATENCY * 2.5, 0.1, 0.525),
    ],
)
def test_worse_reading_decides(latency: timedelta | None, pressure: float, ratio: float) -> None:
    assert slowdown(latency, pressure) == pytest.approx(ratio)


class UnavailableInboxLatencyReport(MemoryInboxLatencyReport):
    def worst(self) -> timedelta | None:
        raise CacheUnavailable


def make_slowdown(clock: ManualClock, latency_report: MemoryInboxLatencyReport) -> Slowdown:
    return Slowdown(inbox_latency=latency_report, backpressure=MemoryBackpressure(clock), metrics=Metrics())


def test_slowdown_is_read_once_a_second_and_measured() -> None:
    clock = ManualClock()
    latency_report = MemoryInboxLatencyReport(clock)
    current_slowdown = make_slowdown(clock, latency_report)
    assert current_slowdown(clock.now()) == 1
    latency_report.publish("a", STUCK_INBOX_LATENCY, 10 * SECOND)
    assert current_slowdown(clock.now() + 0.9 * SECOND) == 1
    assert current_slowdown(clock.now() + SECOND) == MIN_SLOWDOWN
    assert current_slowdown.metrics.registry.get_sample_value("notifier_push_slowdown_ratio") == MIN_SLOWDOWN


def test_unavailable_report_causes_no_slowdown() -> None:
    clock = ManualClock()
    current_slowdown = make_slowdown(clock, UnavailableInboxLatencyReport(clock))
    current_slowdown.factor = MIN_SLOWDOWN
    assert current_slowdown(clock.now()) == 1
    assert isinstance(current_slowdown.read_at, datetime)
