"""Late bursts that wait for a newer burst: crashes, number of attempts, and reads."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from notifier.domain.backoff_due_times_alert_ages import LATE_AFTER
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.slice_and_pool import Done, Pool
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.domain.push.alert import SummaryAlert
from notifier.domain.push.send_log import SendBatch, SendLogKey, SilentReason
from notifier.wiring.delivery import build_slice_worker
from tests.flow.alerts_of_one_user import (
    KIM,
    NIGHT,
    ORION,
    alert_sizes,
    end_quiet_hours,
    mention,
    send_batches,
    set_quiet_hours,
    work,
)
from tests.support.in_memory_system import Stage
from tests.support.simulator.script import Changed

MANY = 70
"""Waiting bursts. Each is tried once a minute in the end, which is more than the worker has time for."""


class FailsFirstClose:
    """A send log whose first `close` fails after the alerts are sent."""

    def __init__(self, stage: Stage) -> None:
        self._sent, self.broken = stage.state.send_log, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sent, name)

    def close(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> None:
        if not self.broken:
            self.broken = True
            raise StoreUnavailable
        self._sent.close(batches)


def test_uncertain_summary_is_not_repeated_by_another_burst() -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    end_quiet_hours(stage)
    older, newer = stage.bursts()
    working_ports = stage.ports
    stage.ports = replace(working_ports, send_log=FailsFirstClose(stage))
    work(stage, newer)
    stage.ports = working_ports
    work(stage, older)
    [batch] = send_batches(stage, older)
    assert ([*batch.silent], alert_sizes(stage)) == ([SilentReason.COLLAPSED], [2])
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [2, 2]


def test_waiting_slice_backs_off_and_is_alerted_in_the_end() -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    end_quiet_hours(stage)
    older, _ = stage.bursts()
    [slice_] = [slice_ for slice_ in stage.state.queue.waiting[Pool.FCM] if slice_.burst == older and slice_.first == 0]
    before = progress(stage, older).slice_states[slice_].times_deferred
    for _ in range(20 * 60):
        stage.dispatch()
        work(stage, older)
        stage.state.queue.waiting[Pool.FCM] = [*dict.fromkeys(stage.state.queue.waiting[Pool.FCM])]
        stage.pass_time(seconds=1)
    assert 15 < progress(stage, older).slice_states[slice_].times_deferred - before < 35
    assert alert_sizes(stage) == []
    stage.deliver(rounds=120)
    assert alert_sizes(stage) == [2]


def test_late_burst_waits_for_a_newer_one_that_is_about_to_be_late() -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    stage.state.clock.advance(NIGHT - LATE_AFTER)
    stage.mention("nova", of="newer")
    [older, _] = stage.bursts()
    stage.deliver_others()
    stage.pass_time(seconds=LATE_AFTER.total_seconds() - 65)
    stage.dispatch()
    work(stage, older)
    assert alert_sizes(stage) == []
    stage.pass_time(seconds=70)
    stage.deliver(rounds=300)
    assert alert_sizes(stage) == [2]


def test_newest_burst_is_worked_before_all_that_wait_for_it() -> None:
    stage, alerts = Stage(), list[object]()
    set_quiet_hours(stage)
    for _ in range(MANY):
        mention(stage, KIM)
    end_quiet_hours(stage)
    waiting, run_slice = stage.state.queue.waiting, build_slice_worker(stage.system())
    for _ in range(2 * MANY):
        stage.dispatch()
        queued = [*dict.fromkeys(waiting[Pool.FCM])]
        for slice_ in queued[:1]:
            run_slice(slice_)
        waiting[Pool.FCM] = queued[1:]
        stage.pass_time(seconds=1)
        alerts = [sent.content for sent, _ in stage.state.phones.arrived]
    assert alerts == [SummaryAlert(count=MANY)]


class Unreadable:
    """A ledger in which one burst's progress is unreadable."""

    def __init__(self, stage: Stage, burst: BurstKey) -> None:
        self._ledger, self._burst = stage.state.ledger, burst

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        if self._burst in keys:
            raise Poison
        return self._ledger.read(keys)


@pytest.mark.parametrize("unreadable", [0, 1])
def test_burst_with_unreadable_progress_delays_no_other(unreadable: int) -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    end_quiet_hours(stage)
    bursts = stage.bursts()
    stage.ports = replace(stage.ports, ledger=Unreadable(stage, bursts[unreadable]))
    work(stage, bursts[1 - unreadable])
    assert alert_sizes(stage) == [1]


def progress(stage: Stage, burst: BurstKey) -> BurstProgress:
    return stage.state.ledger.read([burst])[burst]


class Counting:
    """Audience snapshots that record each read's burst and shards."""

    def __init__(self, stage: Stage) -> None:
        self._audience_snapshots, self.reads = stage.state.audience_snapshots, list[tuple[BurstKey, tuple[int, ...]]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._audience_snapshots, name)

    def read(self, burst: BurstKey, shards: Collection[int]) -> Any:
        self.reads.append((burst, tuple(shards)))
        return self._audience_snapshots.read(burst, shards)


def test_sibling_snapshots_are_read_once_for_all_shards_of_a_slice() -> None:
    stage = Stage()
    for change in ("vip", "push", "idle:1"):
        stage.population.change(Changed(person="max", what=change))
    set_quiet_hours(stage, KIM, "max")
    for n in range(3):
        mention(stage, "orion", of=f"of orion {n}")
    end_quiet_hours(stage)
    oldest, older, newest = stage.bursts(ORION)
    counting = Counting(stage)
    stage.ports = replace(stage.ports, audience_snapshots=counting)
    work(stage, newest)
    assert counting.reads == [(older, (0, 1)), (oldest, (0, 1))]


def test_timely_burst_reads_no_siblings() -> None:
    stage = Stage()
    mention(stage)
    stage.mention("nova", of="newer")
    counting = Counting(stage)
    stage.ports = replace(stage.ports, audience_snapshots=counting)
    stage.dispatch()
    stage.work(Pool.P0)
    stage.pass_time(seconds=1)
    stage.dispatch()
    counting.reads.clear()
    stage.pass_time(seconds=LATE_AFTER.total_seconds() - 1 - 1)
    outcomes = stage.work(Pool.FCM)
    assert any(isinstance(outcome, Done) for outcome in outcomes)
    assert (alert_sizes(stage), counting.reads) == ([1, 1], [])
