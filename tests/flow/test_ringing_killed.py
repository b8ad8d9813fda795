"""What becomes of alerts over which a worker dies."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import time
from typing import Any

import pytest

from notifier.domain.delivery.slice import Pool
from notifier.domain.ids import UserId
from notifier.domain.push.receipt import RetryAt
from notifier.domain.push.send_log import TRIES, AlertOutcome, Sending, Window
from notifier.domain.users.account_preferences import OverallWish
from notifier.domain.users.quiet_hours import Hours
from notifier.ports.push import SendLog
from notifier.wiring.delivery import build_slice_worker
from tests.flow.alert_counts import SOON, alert_count, alert_counts, alert_outcomes, phone
from tests.support.in_memory_system import Stage

NIGHT = OverallWish(quiet=Hours(start=time(21), end=time(5)), zone="Asia/Tokyo")
"""From noon by UTC, for eight hours."""


class Killed(BaseException):
    """As by SIGKILL: nothing of the system catches it."""


class Dying:
    """The worker is killed at its n-th call of this method: before its effect, or behind it."""

    def __init__(self, sent: SendLog, method: str, *, behind: bool) -> None:
        self.sent, self.method, self.behind, self.left = sent, method, behind, 1

    def read(self, *given: Any) -> Any:
        return self.sent.read(*given)

    def intend(self, windows: Sequence[tuple[Sending, Window]]) -> Any:
        return self._call("intend", windows)

    def close(self, windows: Sequence[tuple[Sending, Window]]) -> None:
        self._call("close", windows)

    def _call(self, method: str, windows: Sequence[tuple[Sending, Window]]) -> Any:
        fatal = method == self.method and self.left > 0
        self.left -= fatal
        found = None if fatal and not self.behind else getattr(self.sent, method)(windows)
        if fatal:
            raise Killed
        return found


def killed(stage: Stage, sent: Dying) -> None:
    stage.mention("nova")
    dying: Any = sent
    stage.dispatch()
    stage.work(Pool.P0, Pool.P1, Pool.P2)
    stage.pass_time(seconds=1)
    stage.dispatch()
    with pytest.raises(Killed):
        stage.work(Pool.FCM, by=build_slice_worker(stage.system(sent=dying)))


@pytest.mark.parametrize(
    ("method", "behind", "times"),
    [
        pytest.param("intend", False, {1}, id="before it is noted"),
        pytest.param("intend", True, {1}, id="once it is noted"),
        pytest.param("close", False, {1, 2}, id="once it is sent"),
        pytest.param("close", True, {1}, id="once that is noted"),
    ],
)
def test_a_worker_that_is_killed_rings_nobody_twice_but_for_the_window_it_died_over(
    method: str, behind: bool, times: set[int]
) -> None:
    stage = Stage()
    killed(stage, Dying(stage.ground.sent, method, behind=behind))
    stage.pass_time(seconds=60)
    stage.deliver(rounds=60)
    assert len(alert_counts(stage)) == 3
    assert set(alert_counts(stage).values()) == times
    for device in {device.id for _, device in stage.ground.phones.arrived}:
        mine = [sent.collapse_id for sent, one in stage.ground.phones.arrived if one.id == device]
        assert len(set(mine)) == len({sent.burst for sent, one in stage.ground.phones.arrived if one.id == device})


def test_whoever_sleeps_by_the_time_a_crash_is_found_is_not_woken_by_what_may_have_arrived() -> None:
    stage = Stage()
    killed(stage, Dying(stage.ground.sent, "close", behind=False))
    assert alert_count(stage, "kim") == 1
    stage.ground.people.arrange(UserId("kim"), NIGHT)
    stage.pass_time(seconds=60)
    stage.deliver_others()
    assert (alert_count(stage, "kim"), alert_count(stage, "lee")) == (1, 1)


def test_a_window_over_which_every_worker_dies_rings_nobody_more_than_three_times() -> None:
    stage = Stage()
    dying = Dying(stage.ground.sent, "close", behind=False)
    dying.left = 9
    killed(stage, dying)
    deadly: Any = dying
    for _ in range(9):
        stage.pass_time(seconds=40)
        stage.dispatch()
        with suppress(Killed):
            stage.work(Pool.FCM, by=build_slice_worker(stage.system(sent=deadly)))
    stage.deliver(rounds=60)
    assert set(alert_counts(stage).values()) <= set(range(1, TRIES + 1))


def test_a_worker_that_dies_over_what_is_given_up_leaves_it_to_be_given_up_and_rings_nobody() -> None:
    stage = Stage()
    stage.ground.phones.says[phone(stage, "kim").id] = [RetryAt(at=stage.ground.clock.now() + SOON, reason="busy")]
    stage.mention("nova")
    stage.deliver_others()
    stage.ground.people.arrange(UserId("kim"), NIGHT)
    stage.pass_time(hours=8)
    dying: Any = Dying(stage.ground.sent, "close", behind=False)
    stage.dispatch()
    with pytest.raises(Killed):
        stage.work(Pool.FCM, by=build_slice_worker(stage.system(sent=dying)))
    stage.pass_time(seconds=60)
    stage.deliver(rounds=60)
    assert (alert_count(stage, "kim"), alert_count(stage, "roy"), alert_count(stage, "lee")) == (0, 1, 1)
    assert alert_outcomes(stage, "kim")[-1] is AlertOutcome.GIVEN_UP


def test_what_waited_for_one_person_s_device_rings_for_nobody_else_who_has_it_by_now() -> None:
    stage = Stage()
    again = RetryAt(at=stage.ground.clock.now() + SOON, reason="busy")
    roys, kims = phone(stage, "roy"), phone(stage, "kim")  # of one tier, shard and window
    stage.ground.phones.says |= {roys.id: [again], kims.id: [again]}
    stage.mention("nova")
    stage.deliver_others()
    stage.pass_time(seconds=1)
    stage.ground.devices.write([replace(roys, member=kims.member, registered_at=stage.ground.clock.now())])
    stage.deliver(rounds=60)
    assert (alert_counts(stage)[str(kims.address)], alert_counts(stage)[str(roys.address)]) == (1, 0)
