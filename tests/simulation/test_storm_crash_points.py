"""A process may crash at every port call of a storm of 20 mentions."""

import pytest

from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import crash, points, storm

SHARES = 28

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]


@pytest.mark.parametrize("share", range(SHARES))
def test_process_may_crash_at_port_calls_of_a_storm(share: int) -> None:
    trials = list(points(storm(), crash, every=SHARES, start=share))
    assert len(trials) > 25, "the storm has too few crash points"
    assert [f"{thread}, point {number}: {trial}" for thread, number, trial in trials if trial.wrong] == []
