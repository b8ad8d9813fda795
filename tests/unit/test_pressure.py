"""How much of P2 gives way."""

from datetime import timedelta

import pytest

from notifier.domain.pressure import CROWDED, SLOW_STORE, STUCK_STORE, Readings, pressure


@pytest.mark.parametrize(
    ("latency", "waiting", "taken"),
    [
        (SLOW_STORE / 10, 0, 0.0),
        (SLOW_STORE, CROWDED, 0.0),
        ((SLOW_STORE + STUCK_STORE) / 2, 0, 0.5),
        (STUCK_STORE, 0, 1.0),
        (100 * STUCK_STORE, 100 * CROWDED, 1.0),
        (SLOW_STORE / 10, CROWDED * 3 // 2, 0.5),
        (SLOW_STORE / 10, 2 * CROWDED, 1.0),
    ],
)
def test_the_worse_of_both_readings_takes_its_share(latency: timedelta, waiting: int, taken: float) -> None:
    assert pressure(Readings(store_latency=latency, waiting=waiting)) == pytest.approx(taken)
