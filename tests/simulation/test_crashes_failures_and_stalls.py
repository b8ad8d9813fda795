"""Invariants hold when a thread crashes, fails or stalls at any port call."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from tests.support.simulator.run_and_shorten import Trial, trial
from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import (
    crash,
    failing_call,
    frequent_visits,
    joined_mentions,
    one_mention,
    paused_tier,
    points,
    returning_user,
    stall,
)
from tests.support.simulator.script import FailureMode, Fault, Script, ScriptEntry, Stalled

Scenario = Callable[[], Script]
MakeFault = Callable[[str], Fault]

pytestmark = pytest.mark.timeout(300)


def failures(scenario: Scenario, fault: MakeFault, every: int = 1) -> list[str]:
    trials = list(points(scenario(), fault, every=every))
    assert len(trials) > 15, "the scenario has too few crash points"
    return [f"{thread}, point {number}: {trial}" for thread, number, trial in trials if trial.wrong]


@pytest.mark.parametrize("scenario", [one_mention, joined_mentions])
def test_process_may_crash_before_or_after_every_port_call(scenario: Scenario) -> None:
    assert failures(scenario, crash) == []


@pytest.mark.prove
def test_process_may_crash_while_tier_is_paused() -> None:
    assert failures(paused_tier, crash, every=11) == []


@pytest.mark.prove
@pytest.mark.parametrize("how", list(FailureMode))
def test_port_call_may_fail_before_during_or_after_its_effect(how: FailureMode) -> None:
    assert failures(one_mention, failing_call(how), every=3) == []


@pytest.mark.prove
def test_opening_inbox_activates_user_despite_rollup_faults() -> None:
    """The roll-up crashes, fails or stalls past its lease at every second point. Its work is done in the end."""
    faults = [crash, stall, *map(failing_call, FailureMode)]
    trials = [point for fault in faults for point in points(returning_user(), fault, every=2, within="/rollup")]
    assert len(trials) > 50, "the scenario has too few crash points"
    assert [f"{thread}, point {number}: {result}" for thread, number, result in trials if result.wrong] == []


@pytest.mark.prove
def test_thread_may_stall_past_its_claims_and_leases() -> None:
    assert failures(one_mention, stall, every=3) == []


@pytest.mark.prove
def test_burst_is_not_marked_seen_before_it_is_visible() -> None:
    assert [str(result) for result in stalled_and_crashed(frequent_visits()) if result.wrong] == []


def stalled_and_crashed(scenario: Script) -> Iterator[Trial]:
    """Stall the pump at each point of its coordinator, longer than a page needs to settle; then resume or crash."""
    thread = "pump-1/celebrity"
    for n in range(len(trial(scenario).points[thread])):
        stall = ScriptEntry(point=(thread, n + 1), what=Stalled(name="pump-1", lasting=timedelta(seconds=4)))
        crashed = ScriptEntry(point=(thread, n + 2), what=crash(thread))
        yield trial(scenario.with_more(stall))
        yield trial(scenario.with_more(stall, crashed))
