"""Who is late and waits for a newer burst: what a crash leaves in doubt, how often it asks, and what it reads."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.slice import Done, Pool
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.domain.push.alert import WhileAway
from notifier.domain.push.send_log import Sending, Why, Window
from notifier.domain.timing import STALE
from notifier.wiring.delivery import build_slice_worker
from tests.flow.quiet_hours import (
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
"""Of whom each asks once a minute, in the end: more than there are turns in that time."""


class Unclosed:
    """A worker's line to the store breaks behind the sends of its first window."""

    def __init__(self, stage: Stage) -> None:
        self._sent, self.broken = stage.ground.sent, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sent, name)

    def close(self, send_batches: Sequence[tuple[Sending, Window]]) -> None:
        if not self.broken:
            self.broken = True
            raise StoreUnavailable
        self._sent.close(send_batches)


def test_what_a_summary_told_that_is_in_doubt_is_told_by_no_other() -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    end_quiet_hours(stage)
    older, newer = stage.bursts()
    sound = stage.ports
    stage.ports = replace(sound, sent=Unclosed(stage))
    work(stage, newer)
    stage.ports = sound
    work(stage, older)
    [window] = send_batches(stage, older)
    assert ([*window.silent], alert_sizes(stage)) == ([Why.COLLAPSED], [2])
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [2, 2]


def test_who_waits_asks_less_and_less_often_and_is_told_in_the_end() -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    end_quiet_hours(stage)
    older, _ = stage.bursts()
    [piece] = [one for one in stage.ground.queue.waiting[Pool.FCM] if one.burst == older and one.first == 0]
    before = account(stage, older).standings[piece].waited
    for _ in range(20 * 60):
        stage.dispatch()
        work(stage, older)
        stage.ground.queue.waiting[Pool.FCM] = [*dict.fromkeys(stage.ground.queue.waiting[Pool.FCM])]
        stage.pass_time(seconds=1)
    assert 15 < account(stage, older).standings[piece].waited - before < 35
    assert alert_sizes(stage) == []
    stage.deliver(rounds=120)
    assert alert_sizes(stage) == [2]


def test_a_newer_one_that_is_late_in_a_moment_is_waited_for_too() -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    stage.ground.clock.advance(NIGHT - STALE)
    stage.mention("nova", of="newer")
    [older, _] = stage.bursts()
    stage.deliver_others()
    stage.pass_time(seconds=STALE.total_seconds() - 65)
    stage.dispatch()
    work(stage, older)
    assert alert_sizes(stage) == []
    stage.pass_time(seconds=70)
    stage.deliver(rounds=300)
    assert alert_sizes(stage) == [2]


def test_however_many_wait_for_the_newest_it_has_its_turn_before_them() -> None:
    stage, rang = Stage(), list[object]()
    set_quiet_hours(stage)
    for _ in range(MANY):
        mention(stage, KIM)
    end_quiet_hours(stage)
    waiting, one = stage.ground.queue.waiting, build_slice_worker(stage.system())
    for _ in range(2 * MANY):
        stage.dispatch()
        turns = [*dict.fromkeys(waiting[Pool.FCM])]
        for piece in turns[:1]:
            one(piece)
        waiting[Pool.FCM] = turns[1:]
        stage.pass_time(seconds=1)
        rang = [sent.news for sent, _ in stage.ground.phones.arrived]
    assert rang == [WhileAway(count=MANY)]


class Unreadable:
    """A ledger in which one account can't be read."""

    def __init__(self, stage: Stage, burst: BurstKey) -> None:
        self._ledger, self._burst = stage.ground.ledger, burst

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        if self._burst in keys:
            raise Poison
        return self._ledger.read(keys)


@pytest.mark.parametrize("broken", [0, 1])
def test_one_whose_account_can_t_be_read_keeps_nobody_waiting(broken: int) -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    end_quiet_hours(stage)
    bursts = stage.bursts()
    stage.ports = replace(stage.ports, ledger=Unreadable(stage, bursts[broken]))
    work(stage, bursts[1 - broken])
    assert alert_sizes(stage) == [1]


def account(stage: Stage, burst: BurstKey) -> BurstProgress:
    return stage.ground.ledger.read([burst])[burst]


class Counting:
    """Seals, and of which shards of each burst they were asked at once."""

    def __init__(self, stage: Stage) -> None:
        self._seals, self.asked = stage.ground.seals, list[tuple[BurstKey, tuple[int, ...]]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seals, name)

    def read(self, burst: BurstKey, shards: Collection[int]) -> Any:
        self.asked.append((burst, tuple(shards)))
        return self._seals.read(burst, shards)


def test_other_bursts_are_read_once_for_all_shards_of_a_slice() -> None:
    stage = Stage()
    for what in ("vip", "push", "idle:1"):
        stage.scene.change(Changed(person="max", what=what))
    set_quiet_hours(stage, KIM, "max")
    for n in range(3):
        mention(stage, "orion", of=f"of orion {n}")
    end_quiet_hours(stage)
    oldest, older, newest = stage.bursts(ORION)
    counting = Counting(stage)
    stage.ports = replace(stage.ports, seals=counting)
    work(stage, newest)
    assert counting.asked == [(older, (0, 1)), (oldest, (0, 1))]


def test_what_is_in_time_waits_for_nothing_and_asks_for_no_other() -> None:
    stage = Stage()
    mention(stage)
    stage.mention("nova", of="newer")
    counting = Counting(stage)
    stage.ports = replace(stage.ports, seals=counting)
    stage.dispatch()
    stage.work(Pool.P0)
    stage.pass_time(seconds=1)
    stage.dispatch()
    counting.asked.clear()
    stage.pass_time(seconds=STALE.total_seconds() - 1 - 1)
    outcomes = stage.work(Pool.FCM)
    assert any(isinstance(outcome, Done) for outcome in outcomes)
    assert (alert_sizes(stage), counting.asked) == ([1, 1], [])
