"""Devices change owners and quiet hours end while indexers and senders fail."""

from collections import Counter
from dataclasses import replace

import pytest

from notifier.domain.audience.bitmap import members
from notifier.domain.ids import Member, Platform, Subject
from notifier.domain.push.alert import SummaryAlert
from notifier.domain.push.send_log import SilentReason
from tests.support.simulator.checks import run_and_check
from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import crash, failing_call, points, stall
from tests.support.simulator.scenarios.devices import device_changes, device_retries
from tests.support.simulator.scenarios.quiet_hours_and_several_days import after_quiet_hours, quiet_hours
from tests.support.simulator.script import FailureMode

pytestmark = pytest.mark.timeout(300)


def test_audience_snapshots_follow_device_changes() -> None:
    simulation = run_and_check(device_changes())
    reports = simulation.population.in_flight_changes.device_updates()
    assert len({report.person for report in reports if report.is_registered}) > 4
    assert len([report for report in reports if not report.is_registered]) > 10
    reachable = [
        {person.name for person in people.values() if person.push and person.name in ("kim", "lee", "max", "roy")}
        for people in simulation.population.history
    ]
    assert len({frozenset(names) for names in reachable}) > 5


FAULTS = {"crash": crash, "stall": stall, **{str(how): failing_call(how) for how in FailureMode}}


@pytest.mark.prove
@pytest.mark.parametrize("thread", ["/device_indexer", "api/phones"])
@pytest.mark.parametrize("fault", FAULTS)
def test_device_indexers_survive_faults(thread: str, fault: str) -> None:
    """Test every 29th call, a different share of them for each kind of fault."""
    start = 11 * [*FAULTS].index(fault) % 29
    trials = list(points(device_changes(), FAULTS[fault], every=29, start=start, within=thread))
    assert trials, "the scenario has too few crash points"
    assert [f"{name}, point {number}: {trial}" for name, number, trial in trials if trial.wrong] == []


@pytest.mark.parametrize("seed", range(2))
def test_device_changes_are_correct_in_any_order(seed: int) -> None:
    run_and_check(replace(device_changes(), seed=seed))


def test_worker_stalled_after_intent_does_not_send_twice() -> None:
    trials = list(points(replace(device_retries(), workers=2), stall, every=2, start=1, within="push-1"))
    assert any("behind send_log.write_ahead" in name for name, _, _ in trials)
    assert [f"{name}, point {number}: {trial}" for name, number, trial in trials if trial.wrong] == []


def test_quiet_hours_end_with_one_summary_alert() -> None:
    simulation = run_and_check(quiet_hours())
    summary_counts = {
        device.member: alert.content.count
        for alert, device in simulation.state.phones.arrived
        if isinstance(alert.content, SummaryAlert)
    }
    assert summary_counts[Member(simulation.population.base["kim"].member)] > 1
    batches = [
        batch for batches_of_shard in simulation.state.send_log.batches.values() for batch in batches_of_shard.values()
    ]
    assert any(SilentReason.COLLAPSED in batch.silent for batch in batches)


def test_morning_alerts_reach_every_provider_and_never_repeat() -> None:
    simulation = run_and_check(after_quiet_hours())
    platforms = {
        device.platform for alert, device in simulation.state.phones.arrived if isinstance(alert.content, SummaryAlert)
    }
    assert platforms == {*Platform}
    alerts = Counter[tuple[Subject, int, Platform, int]]()
    for at, batches in simulation.state.send_log.batches.items():
        for member, batch in (
            (Member(m), written) for written in batches.values() for m in members(written.alerted, at.shard)
        ):
            seqs = (at.burst.seq, *batch.covered_by_alert(member))
            alerts.update((at.burst.subject, seq, at.platform, member) for seq in seqs)
    assert alerts.total() > 10
    assert [alert for alert, n in alerts.items() if n > 1] == []


SCENARIOS = {"quiet_hours": (quiet_hours, 29), "after_quiet_hours": (after_quiet_hours, 91)}
"""Script, and the step from one crash point to the next."""


@pytest.mark.prove
@pytest.mark.parametrize("fault", ["crash", "stall", "after"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_alerts_after_quiet_hours_survive_sender_faults(scenario: str, fault: str) -> None:
    script, every = SCENARIOS[scenario]
    start = 3 * [*FAULTS].index(fault)
    trials = list(points(script(), FAULTS[fault], every=every, start=start, within="push-1"))
    assert len(trials) > 1, "the scenario has too few crash points"
    assert [f"{name}, point {number}: {trial}" for name, number, trial in trials if trial.wrong] == []
