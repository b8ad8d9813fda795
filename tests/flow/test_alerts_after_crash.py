"""Alerts after a worker was killed."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.ids import UserId
from notifier.domain.push.receipt import RetryAt
from notifier.domain.push.send_log import MAX_ALERT_ATTEMPTS, AlertOutcome, SendBatch, SendLogKey
from notifier.ports.push import SendLog
from notifier.wiring.delivery import build_slice_worker
from tests.flow.alert_counts_and_outcomes import SOON, alert_count, alert_counts, alert_outcomes, phone
from tests.flow.alerts_of_one_user import QUIET
from tests.support.in_memory_system import Stage


class Killed(BaseException):
    """No code of the system catches it, like SIGKILL."""


class KillsWorker:
    """Kills the worker at its first calls of a method, before or after their effect."""

    def __init__(self, sent: SendLog, method: str, *, after: bool) -> None:
        self.sent, self.method, self.after, self.remaining = sent, method, after, 1

    def read(self, *args: Any) -> Any:
        return self.sent.read(*args)

    def write_ahead(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> Any:
        return self._call("write_ahead", batches)

    def close(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> None:
        self._call("close", batches)

    def _call(self, method: str, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> Any:
        fatal = method == self.method and self.remaining > 0
        self.remaining -= fatal
        result = None if fatal and not self.after else getattr(self.sent, method)(batches)
        if fatal:
            raise Killed
        return result


def run_until_killed(stage: Stage, sent: KillsWorker) -> None:
    stage.mention("nova")
    killing_log: Any = sent
    stage.dispatch()
    stage.work(Pool.P0, Pool.P1, Pool.P2)
    stage.pass_time(seconds=1)
    stage.dispatch()
    with pytest.raises(Killed):
        stage.work(Pool.FCM, by=build_slice_worker(stage.system(send_log=killing_log)))


@pytest.mark.parametrize(
    ("method", "after", "times"),
    [
        pytest.param("write_ahead", False, {1}, id="before the intent is stored"),
        pytest.param("write_ahead", True, {1}, id="after the intent is stored"),
        pytest.param("close", False, {1, 2}, id="after the alerts are sent"),
        pytest.param("close", True, {1}, id="after the result is stored"),
    ],
)
def test_killed_worker_repeats_at_most_the_alerts_of_one_batch(method: str, after: bool, times: set[int]) -> None:
    stage = Stage()
    run_until_killed(stage, KillsWorker(stage.state.send_log, method, after=after))
    stage.pass_time(seconds=60)
    stage.deliver(rounds=60)
    assert len(alert_counts(stage)) == 3
    assert set(alert_counts(stage).values()) == times
    for device in {device.id for _, device in stage.state.phones.arrived}:
        collapse_ids = [sent.collapse_id for sent, target in stage.state.phones.arrived if target.id == device]
        assert len(set(collapse_ids)) == len(
            {sent.burst for sent, target in stage.state.phones.arrived if target.id == device}
        )


def test_uncertain_alert_is_not_resent_in_quiet_hours() -> None:
    stage = Stage()
    run_until_killed(stage, KillsWorker(stage.state.send_log, "close", after=False))
    assert alert_count(stage, "kim") == 1
    stage.state.people.patch_account(UserId("kim"), QUIET)
    stage.pass_time(seconds=60)
    stage.deliver_others()
    assert (alert_count(stage, "kim"), alert_count(stage, "lee")) == (1, 1)


def test_batch_that_kills_every_worker_is_sent_at_most_three_times() -> None:
    stage = Stage()
    killing_log = KillsWorker(stage.state.send_log, "close", after=False)
    killing_log.remaining = 9
    run_until_killed(stage, killing_log)
    killing_port: Any = killing_log
    for _ in range(9):
        stage.pass_time(seconds=40)
        stage.dispatch()
        with suppress(Killed):
            stage.work(Pool.FCM, by=build_slice_worker(stage.system(send_log=killing_port)))
    stage.deliver(rounds=60)
    assert set(alert_counts(stage).values()) <= set(range(1, MAX_ALERT_ATTEMPTS + 1))


def test_worker_killed_while_giving_up_sends_no_alert() -> None:
    stage = Stage()
    stage.state.phones.answers[phone(stage, "kim").id] = [RetryAt(at=stage.state.clock.now() + SOON, reason="busy")]
    stage.mention("nova")
    stage.deliver_others()
    stage.state.people.patch_account(UserId("kim"), QUIET)
    stage.pass_time(hours=8)
    killing_log: Any = KillsWorker(stage.state.send_log, "close", after=False)
    stage.dispatch()
    with pytest.raises(Killed):
        stage.work(Pool.FCM, by=build_slice_worker(stage.system(send_log=killing_log)))
    stage.pass_time(seconds=60)
    stage.deliver(rounds=60)
    assert (alert_count(stage, "kim"), alert_count(stage, "roy"), alert_count(stage, "lee")) == (0, 1, 1)
    assert alert_outcomes(stage, "kim")[-1] is AlertOutcome.GIVEN_UP


def test_retry_is_not_sent_to_the_new_user_of_a_device() -> None:
    stage = Stage()
    retry = RetryAt(at=stage.state.clock.now() + SOON, reason="busy")
    roys_device, kims_device = phone(stage, "roy"), phone(stage, "kim")  # of one tier, shard and send batch
    stage.state.phones.answers |= {roys_device.id: [retry], kims_device.id: [retry]}
    stage.mention("nova")
    stage.deliver_others()
    stage.pass_time(seconds=1)
    stage.state.devices.write([replace(roys_device, member=kims_device.member, registered_at=stage.state.clock.now())])
    stage.deliver(rounds=60)
    assert (alert_counts(stage)[str(kims_device.address)], alert_counts(stage)[str(roys_device.address)]) == (1, 0)
