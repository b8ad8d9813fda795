"""Parked bursts cost the dispatcher little, and late P0 slices take credit from P2."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.scheduling import POOL_CREDITS
from notifier.domain.delivery.slice_and_pool import Pool, Step
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey
from notifier.flow.delivery.dispatcher import Dispatcher
from notifier.wiring.delivery import build_dispatcher, build_load_monitor
from tests.support.in_memory_system import LYRA, NOVA, Stage

HOUR_SECONDS = 3600


@dataclass
class Counted:
    """A ledger that counts the bursts whose progress is read."""

    ledger: Any
    read_sizes: list[int] = field(default_factory=list)
    open_since: list[datetime | None] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)

    def unfinished_bursts(self, since: datetime | None = None) -> Any:
        self.open_since.append(since)
        return self.ledger.unfinished_bursts(since)

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        self.read_sizes.append(len(bursts))
        progress: Mapping[BurstKey, BurstProgress] = self.ledger.read(bursts)
        return progress


def test_dispatcher_does_not_read_parked_bursts_in_every_round() -> None:
    stage = Stage()
    stage.throttle(Tier.P2, seconds=24 * HOUR_SECONDS)
    for _ in range(40):
        stage.mention("lyra")
        stage.deliver_others()
        stage.pass_time(seconds=61)
    ledger = Counted(stage.state.ledger)
    dispatcher: Dispatcher = build_dispatcher(stage.system(ledger=ledger))
    dispatcher()
    assert sum(ledger.read_sizes) == 40
    ledger.read_sizes.clear()
    ledger.open_since.clear()
    for _ in range(10):
        stage.pass_time(milliseconds=20)
        dispatcher()
    assert sum(ledger.read_sizes) == 0
    assert None not in ledger.open_since
    credits = {pool: credit.slices for pool, credit in POOL_CREDITS.items()}
    assert len(dispatcher.backlog.candidates(credits, stage.state.clock.now())) == POOL_CREDITS[Pool.P2].slices


def test_new_leader_serves_newest_burst_before_reading_the_backlog() -> None:
    stage = Stage()
    stage.throttle(Tier.P2, seconds=24 * HOUR_SECONDS)
    old_dispatcher = build_dispatcher(stage.system())
    for _ in range(6):
        stage.mention("lyra")
        old_dispatcher()
        stage.work()
        stage.pass_time(seconds=61)
    stage.pass_time(seconds=10)
    stage.mention("nova")
    ledger = Counted(stage.state.ledger)
    new_dispatcher = build_dispatcher(stage.system(ledger=ledger))
    new_dispatcher.max_read_per_round = 2
    new_dispatcher()
    assert stage.bursts(NOVA)[-1] in new_dispatcher.backlog.progress
    assert len(new_dispatcher.backlog.progress) < len(stage.state.ledger.unfinished_bursts())
    assert stage.work(Pool.P0)


def test_parked_bursts_resume_when_the_throttle_ends() -> None:
    stage = Stage()
    stage.throttle(Tier.P2, seconds=HOUR_SECONDS)
    for _ in range(30):
        stage.mention("lyra")
        stage.pass_time(seconds=61)
    stage.deliver_others()
    bursts = stage.state.ledger.read(stage.bursts(LYRA)).values()
    rows = [
        status for progress in bursts for slice_, status in progress.slice_states.items() if slice_.step is Step.ROWS
    ]
    p2 = [status for status in rows if status.slice.tier is Tier.P2]
    assert len(p2) >= 30
    assert all(status.parked_by == {"t1"} and not status.final_entry for status in p2)
    stage.pass_time(seconds=HOUR_SECONDS)
    stage.deliver(rounds=60)


def test_p2_has_no_credit_while_p0_is_late() -> None:
    stage = Stage()
    stage.mention("nova")
    dispatcher, monitor = build_dispatcher(stage.system()), build_load_monitor(stage.system())
    dispatcher()
    assert monitor() == 0
    stage.pass_time(seconds=16)
    dispatcher()
    assert monitor() == 1
    stage.pass_time(seconds=1)
    dispatcher()
    assert dispatcher.rates.credits()[Pool.P2].slices == 0
    stage.work(Pool.P0, Pool.P1)
    stage.pass_time(seconds=1)
    dispatcher()
    assert monitor() == 0


def test_backpressure_lasts_for_three_rounds_of_a_slow_monitor() -> None:
    stage = Stage()
    stage.mention("nova")
    system = stage.system()
    build_dispatcher(system)()
    stage.pass_time(seconds=16)
    build_dispatcher(system)()
    assert replace(build_load_monitor(system), interval=timedelta(minutes=1))() == 1
    stage.pass_time(seconds=179)
    assert system.ports.backpressure.level() == 1
    stage.pass_time(seconds=2)
    assert system.ports.backpressure.level() == 0


def test_throttled_p1_takes_no_credit_from_p2() -> None:
    stage = Stage()
    stage.throttle(Tier.P1, seconds=HOUR_SECONDS)
    stage.mention("nova")
    stage.deliver_others()
    stage.pass_time(seconds=300)
    stage.dispatch()
    assert build_load_monitor(stage.system())() == 0


def test_p2_keeps_credit_without_recent_dispatcher_report() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    stage.pass_time(seconds=60)
    assert build_load_monitor(stage.system())() == 0


@pytest.mark.parametrize("back", [timedelta(minutes=-30), timedelta(days=-1)])
def test_dispatcher_works_after_clock_moves_backwards(back: timedelta) -> None:
    stage = Stage()
    stage.mention("nova")
    stage.deliver()
    stage.dispatch()
    stage.state.clock.advance(back)
    stage.throttle(Tier.P2, seconds=HOUR_SECONDS)
    stage.mention("lyra")
    stage.deliver_others()
    [progress] = stage.state.ledger.read(stage.bursts(LYRA)).values()
    waiting = {slice_.rows_slice.tier for slice_, status in progress.slice_states.items() if not status.final_entry}
    assert waiting == {Tier.P2}


def test_unreadable_plan_does_not_block_others() -> None:
    stage = Stage()
    for _ in range(5):
        stage.mention("lyra")
        stage.pass_time(seconds=61)
    bad = stage.bursts(LYRA)[2]

    class Broken(Counted):
        def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
            if bad in bursts:
                raise Poison("It can't be decoded.")
            return super().read(bursts)

    system = stage.system(ledger=Broken(stage.state.ledger))
    dispatcher = build_dispatcher(system)
    for _ in range(5):
        dispatcher()
        stage.work()
        stage.pass_time(seconds=1)
    assert stage.state.ledger.unfinished_bursts() == [bad]
    assert system.metrics.dead_letters.labels("dispatcher")._value.get() == 1


def test_burst_that_becomes_unreadable_in_flight_is_read_only_once_more() -> None:
    stage = Stage()
    stage.mention("lyra")
    bad = stage.bursts(LYRA)[0]

    @dataclass
    class Breaking(Counted):
        is_broken: bool = False

        def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
            if self.is_broken and bad in bursts:
                raise Poison("It can't be decoded.")
            return super().read(bursts)

    ledger = Breaking(stage.state.ledger)
    system = stage.system(ledger=ledger)
    dispatcher = build_dispatcher(system)
    assert dispatcher() > 0
    ledger.is_broken = True
    for _ in range(5):
        stage.pass_time(seconds=1)
        dispatcher()
    assert bad not in dispatcher.backlog.progress
    assert system.metrics.dead_letters.labels("dispatcher")._value.get() == 1


def test_stuck_queue_is_filled_to_a_bound() -> None:
    stage = Stage()
    for _ in range(40):
        stage.tweet("lyra")
        stage.pass_time(seconds=61)
        stage.sequence()
    for _ in range(200):
        stage.dispatch()
        stage.pass_time(seconds=3)
    assert stage.state.queue.depth(Pool.P0) <= 2 * POOL_CREDITS[Pool.P0].slices
    stage.state.queue.wipe()
    stage.deliver(rounds=60)
