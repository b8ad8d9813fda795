"""Backpressure: how much credit is taken from p2."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.delivery.throttle_and_backpressure import (
    FULL_QUEUE,
    LATE_BACKLOG_AGES,
    LONG_QUEUE,
    SLOW_STORE_LATENCY,
    STUCK_STORE_LATENCY,
    Readings,
    backpressure,
)

NO_DELAYS: Mapping[Pool, timedelta] = {}
CALM = SLOW_STORE_LATENCY / 10


@pytest.mark.parametrize(
    ("latency", "queued", "delays", "taken"),
    [
        (CALM, 0, NO_DELAYS, 0.0),
        (SLOW_STORE_LATENCY, LONG_QUEUE, LATE_BACKLOG_AGES, 0.0),
        ((SLOW_STORE_LATENCY + STUCK_STORE_LATENCY) / 2, 0, NO_DELAYS, 0.5),
        (STUCK_STORE_LATENCY, 0, NO_DELAYS, 1.0),
        (100 * STUCK_STORE_LATENCY, 100 * LONG_QUEUE, {Pool.P1: 100 * LATE_BACKLOG_AGES[Pool.P1]}, 1.0),
        (CALM, (LONG_QUEUE + FULL_QUEUE) // 2, NO_DELAYS, 0.5),
        (CALM, FULL_QUEUE, NO_DELAYS, 1.0),
        (CALM, 0, {Pool.P0: 2 * LATE_BACKLOG_AGES[Pool.P0]}, 0.5),
        (CALM, 0, {Pool.P1: 3 * LATE_BACKLOG_AGES[Pool.P1], Pool.P0: CALM}, 1.0),
        (CALM, 0, {Pool.P2: timedelta(hours=5), Pool.FCM: timedelta(hours=5)}, 0.0),
    ],
)
def test_worst_reading_decides_the_share(
    latency: timedelta, queued: int, delays: Mapping[Pool, timedelta], taken: float
) -> None:
    assert backpressure(Readings(store_latency=latency, queued_count=queued, backlog_ages=delays)) == pytest.approx(
        taken
    )
