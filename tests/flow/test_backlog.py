"""A backlog of parked bursts costs the dispatcher little, and a monitor that sees P0 late makes P2 give way."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.scheduling import CREDITS
from notifier.domain.delivery.slice import Pool, Step
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey
from notifier.flow.delivery.dispatcher import Dispatcher
from notifier.wiring.delivery import build_dispatcher, build_load_monitor
from tests.support.in_memory_system import LYRA, NOVA, Stage

HOUR = 3600


@dataclass
class Counted:
    """A ledger that counts the accounts it is asked for."""

    ledger: Any
    asked: list[int] = field(default_factory=list)
    listed: list[datetime | None] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)

    def open(self, since: datetime | None = None) -> Any:
        self.listed.append(since)
        return self.ledger.open(since)

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        self.asked.append(len(bursts))
        found: Mapping[BurstKey, BurstProgress] = self.ledger.read(bursts)
        return found


def test_parked_bursts_are_not_looked_at_in_every_round() -> None:
    stage = Stage()
    stage.throttle(Tier.P2, seconds=24 * HOUR)
    for _ in range(40):
        stage.mention("lyra")
        stage.deliver_others()
        stage.pass_time(seconds=61)
    ledger = Counted(stage.ground.ledger)
    dispatcher: Dispatcher = build_dispatcher(stage.system(ledger=ledger))
    dispatcher()
    assert sum(ledger.asked) == 40
    ledger.asked.clear()
    ledger.listed.clear()
    for _ in range(10):
        stage.pass_time(milliseconds=20)
        dispatcher()
    assert sum(ledger.asked) == 0
    assert None not in ledger.listed
    most = {pool: credit.slices for pool, credit in CREDITS.items()}
    assert len(dispatcher.backlog.candidates(most, stage.ground.clock.now())) == CREDITS[Pool.P2].slices


def test_a_new_leader_serves_the_newest_before_it_has_read_all_that_is_parked() -> None:
    stage = Stage()
    stage.throttle(Tier.P2, seconds=24 * HOUR)
    before = build_dispatcher(stage.system())
    for _ in range(6):
        stage.mention("lyra")
        before()
        stage.work()
        stage.pass_time(seconds=61)
    stage.pass_time(seconds=10)
    stage.mention("nova")
    ledger = Counted(stage.ground.ledger)
    after = build_dispatcher(stage.system(ledger=ledger))
    after.read_at_once = 2
    after()
    assert stage.bursts(NOVA)[-1] in after.backlog.accounts
    assert len(after.backlog.accounts) < len(stage.ground.ledger.open())
    assert stage.work(Pool.P0)


def test_all_parked_bursts_are_marked_and_go_on_when_the_throttle_ends() -> None:
    stage = Stage()
    stage.throttle(Tier.P2, seconds=HOUR)
    for _ in range(30):
        stage.mention("lyra")
        stage.pass_time(seconds=61)
    stage.deliver_others()
    accounts = stage.ground.ledger.read(stage.bursts(LYRA)).values()
    rows = [s for account in accounts for piece, s in account.standings.items() if piece.step is Step.ROWS]
    p2 = [standing for standing in rows if standing.slice.tier is Tier.P2]
    assert len(p2) >= 30
    assert all(standing.parked_by == {"t1"} and not standing.ended for standing in p2)
    stage.pass_time(seconds=HOUR)
    stage.deliver(rounds=60)


def test_p2_gives_way_while_p0_is_late_and_no_longer_than_that() -> None:
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


def test_a_throttled_p1_is_late_by_order_and_takes_nothing_from_p2() -> None:
    stage = Stage()
    stage.throttle(Tier.P1, seconds=HOUR)
    stage.mention("nova")
    stage.deliver_others()
    stage.pass_time(seconds=300)
    stage.dispatch()
    assert build_load_monitor(stage.system())() == 0


def test_without_a_word_from_a_dispatcher_p2_goes_on() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    stage.pass_time(seconds=60)
    assert build_load_monitor(stage.system())() == 0


@pytest.mark.parametrize("back", [timedelta(minutes=-30), timedelta(days=-1)])
def test_nothing_stands_still_while_a_clock_that_was_set_back_catches_up(back: timedelta) -> None:
    stage = Stage()
    stage.mention("nova")
    stage.deliver()
    stage.dispatch()
    stage.ground.clock.advance(back)
    stage.throttle(Tier.P2, seconds=HOUR)
    stage.mention("lyra")
    stage.deliver_others()
    [account] = stage.ground.ledger.read(stage.bursts(LYRA)).values()
    waiting = {piece.rows.tier for piece, standing in account.standings.items() if not standing.ended}
    assert waiting == {Tier.P2}


def test_a_plan_that_cannot_be_read_holds_up_no_other() -> None:
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

    system = stage.system(ledger=Broken(stage.ground.ledger))
    dispatcher = build_dispatcher(system)
    for _ in range(5):
        dispatcher()
        stage.work()
        stage.pass_time(seconds=1)
    assert stage.ground.ledger.open() == [bad]
    assert system.metrics.dead.labels("dispatcher")._value.get() == 1


def test_a_queue_that_nobody_empties_is_not_filled_for_ever() -> None:
    stage = Stage()
    for _ in range(40):
        stage.tweet("lyra")
        stage.pass_time(seconds=61)
        stage.sequence()
    for _ in range(200):
        stage.dispatch()
        stage.pass_time(seconds=3)
    assert stage.ground.queue.depth(Pool.P0) <= 2 * CREDITS[Pool.P0].slices
    stage.ground.queue.wipe()
    stage.deliver(rounds=60)
