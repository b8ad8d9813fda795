"""Deferred bursts cost the dispatcher nothing and resume when their quiet hours end."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Any

import pytest

from notifier.cli.commands.ledger import ledger_json
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.dispatch_backlog import MIN_DEFERRAL, DeferredBurst
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.flow.delivery.dispatcher import MAX_WOKEN_PER_ROUND, WAKE_INTERVAL, Dispatcher
from notifier.wiring.delivery import build_dispatcher, build_reconciler
from notifier.wiring.operations import build_overview
from tests.flow.alerts_of_one_user import KIM, NIGHT, QUIET
from tests.flow.test_dispatcher_backlog_and_credit import Counted
from tests.flow.test_summary_alerts_and_frequency_cap import alerts_of, mentions
from tests.support.contract_examples import plan
from tests.support.fakes.clock_and_nonces import START
from tests.support.fakes.ledger_claims_deferred_bursts import MemoryClaims, MemoryDeferredBursts, MemoryLedger
from tests.support.in_memory_system import NOVA, Stage

MORNING = NIGHT
"""Time from the first burst's opening to the end of quiet hours."""


def stage_with_deferred_bursts(bursts: int = 3) -> Stage:
    """Open bursts that have alerted everyone outside quiet hours."""
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    mentions(stage, bursts)
    return stage


def run_rounds(stage: Stage, dispatcher: Dispatcher, number: int, seconds: float = 1) -> None:
    for _ in range(number):
        dispatcher()
        stage.work()
        stage.pass_time(seconds=seconds)


def test_deferred_bursts_are_neither_open_nor_in_memory() -> None:
    stage = stage_with_deferred_bursts()
    assert list(stage.state.ledger.unfinished_bursts()) == []
    assert stage.state.deferred_bursts.count() == 3
    ledger = Counted(stage.state.ledger)
    dispatcher = build_dispatcher(stage.system(ledger=ledger))
    run_rounds(stage, dispatcher, 20)
    assert (sum(ledger.read_sizes), dispatcher.backlog.progress) == (0, {})
    stage.state.clock.advance(MORNING)
    run_rounds(stage, dispatcher, 30)
    assert alerts_of(stage, "kim") == [3]
    assert stage.state.ledger.unfinished_or_deferred() == []


def test_dispatcher_resumes_its_deferred_burst_in_time() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    stage.mention("nova")
    morning, dispatcher = stage.state.clock.now() + MORNING, build_dispatcher(stage.system())
    run_rounds(stage, dispatcher, 5)
    stage.state.clock.advance(morning - timedelta(seconds=1) - stage.state.clock.now())
    run_rounds(stage, dispatcher, 1)
    assert stage.state.deferred_bursts.count() == 1
    run_rounds(stage, dispatcher, 1)
    assert (stage.state.deferred_bursts.count(), alerts_of(stage, "kim")) == (0, [0])


def test_successor_resumes_deferred_bursts() -> None:
    stage = stage_with_deferred_bursts(1)
    successor = build_dispatcher(stage.system())
    morning = stage.state.clock.now() + MORNING
    stage.state.clock.advance(MORNING - timedelta(minutes=10))
    successor()
    assert stage.state.deferred_bursts.count() == 1
    while stage.state.clock.now() < morning + WAKE_INTERVAL:
        run_rounds(stage, successor, 1)
    run_rounds(stage, successor, 5)
    assert alerts_of(stage, "kim") == [0]


def test_burst_that_resumes_soon_is_not_deferred() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    stage.state.clock.advance(NIGHT - MIN_DEFERRAL)
    stage.mention("nova")
    stage.deliver_others()
    [key] = [key for key in stage.state.ledger.unfinished_bursts() if key.subject == NOVA]
    assert stage.state.deferred_bursts.count() == 0
    assert key in stage.state.ledger.unfinished_bursts()
    stage.deliver(rounds=90)
    assert alerts_of(stage, "kim") == [0]


def test_burst_with_other_work_is_not_deferred() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    stage.throttle(Tier.P2, seconds=600)
    stage.mention("nova")
    stage.deliver_others()
    assert stage.state.deferred_bursts.count() == 0
    assert any(key.subject == NOVA for key in stage.state.ledger.unfinished_bursts())


def entries_of_deferred(plan: Plan, until: datetime, now: datetime) -> Iterator[LedgerEntry]:
    """Yield entries of finished rows, and of push slices that were queued once and then deferred."""
    for slice_ in plan.slices():
        if slice_.step is Step.ROWS:
            yield LedgerEntry(slice=slice_, fact=Fact.DONE, at=now)
        else:
            yield LedgerEntry(slice=slice_, fact=Fact.DISPATCHED, number=1, at=now)
            yield LedgerEntry(slice=slice_, fact=Fact.DEFERRED, number=1, at=until)


def test_simultaneously_resumed_bursts_are_read_in_small_batches() -> None:
    stage, ledger = Stage(), MemoryLedger(MemoryClaims())
    clock, deferred_bursts, counted = stage.state.clock, MemoryDeferredBursts(ledger), Counted(ledger)
    began = clock.now()
    until = began + timedelta(hours=2)
    plans = [plan(BurstKey(NOVA, n), opened_at=began) for n in range(1, 401)]
    ledger.store_plans(plans)
    ledger.record([entry for plan_ in plans for entry in entries_of_deferred(plan_, until, began)])
    deferred_bursts.defer([DeferredBurst(burst=plan_.burst, opened_at=began, until=until) for plan_ in plans], began)
    dispatcher = build_dispatcher(stage.system(ledger=counted, deferred_bursts=deferred_bursts))
    clock.advance(timedelta(hours=2))
    for _ in range(ceil(len(plans) / MAX_WOKEN_PER_ROUND)):
        dispatcher()
        clock.advance(timedelta(milliseconds=20))
    assert len(dispatcher.backlog.progress) == 400
    in_flight = len(dispatcher.backlog.in_flight)
    assert 0 < in_flight < 100
    assert max(counted.read_sizes) <= MAX_WOKEN_PER_ROUND + in_flight
    assert sum(counted.read_sizes) <= 400 + 3 * in_flight


@dataclass
class Failing:
    """Crashes in the middle of a call, when its bursts are in both lists."""

    deferred_bursts: MemoryDeferredBursts
    ledger: MemoryLedger
    at: str
    crashes: list[str] = field(default_factory=list)

    def defer(self, deferred_bursts: Sequence[DeferredBurst], now: datetime) -> None:
        self.deferred_bursts.defer(deferred_bursts, now)
        if self.at == "defer" and not self.crashes:
            for deferred in deferred_bursts:
                self.ledger.relist(deferred.burst)
            self._crash("defer")

    def wake_due(self, now: datetime, most: int) -> Sequence[BurstKey]:
        before = dict(self.ledger.deferred_by_burst)
        woken = self.deferred_bursts.wake_due(now, most)
        if self.at == "wake" and woken and not self.crashes:
            self.ledger.deferred_by_burst.update({key: before[key] for key in woken})
            self._crash("wake")
        return woken

    def _crash(self, at: str) -> None:
        self.crashes.append(at)
        raise StoreUnavailable("for a test")


@pytest.mark.parametrize("at", ["defer", "wake"])
def test_crash_while_deferring_keeps_one_alert(at: str) -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    crashing_store = Failing(stage.state.deferred_bursts, stage.state.ledger, at)
    morning = stage.state.clock.now() + MORNING
    dispatcher: Any = None

    def run_crashing_rounds(number: int) -> None:
        nonlocal dispatcher
        for _ in range(number):
            dispatcher = dispatcher or build_dispatcher(stage.system(deferred_bursts=crashing_store))
            try:
                dispatcher()
            except StoreUnavailable:
                dispatcher = None
            stage.work()
            stage.pass_time(seconds=1)

    stage.mention("nova")
    run_crashing_rounds(10)
    assert list(stage.state.ledger.unfinished_bursts()) == []
    stage.state.clock.advance(morning - stage.state.clock.now())
    run_crashing_rounds(80)
    assert (crashing_store.crashes, alerts_of(stage, "kim")) == ([at], [0])
    assert stage.state.ledger.unfinished_or_deferred() == []


@dataclass
class Refusing:
    """Fails to defer bursts while `down`; records how long before their wake-up it deferred others."""

    deferred_bursts: MemoryDeferredBursts
    down: bool = True
    ahead: list[timedelta] = field(default_factory=list)

    def defer(self, deferred_bursts: Sequence[DeferredBurst], now: datetime) -> None:
        if self.down:
            raise StoreUnavailable("for a test")
        self.ahead += [deferred.until - now for deferred in deferred_bursts]
        self.deferred_bursts.defer(deferred_bursts, now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.deferred_bursts, name)


def test_burst_is_not_deferred_after_its_wake_up_time() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    deferred_bursts = Refusing(stage.state.deferred_bursts)
    morning, dispatcher = (
        stage.state.clock.now() + MORNING,
        build_dispatcher(stage.system(deferred_bursts=deferred_bursts)),
    )
    stage.mention("nova")
    for _ in range(8):
        with suppress(StoreUnavailable):
            dispatcher()
        stage.work()
        stage.pass_time(seconds=1)
    assert dispatcher.backlog.evictable
    stage.state.clock.advance(morning + timedelta(seconds=1) - stage.state.clock.now())
    deferred_bursts.down = False
    run_rounds(stage, dispatcher, 30)
    assert [ahead for ahead in deferred_bursts.ahead if ahead <= timedelta()] == []
    assert (alerts_of(stage, "kim"), stage.state.ledger.unfinished_or_deferred()) == ([0], [])


def test_deferred_burst_is_balanced() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    system = stage.system()
    reconciler = build_reconciler(system)
    stage.mention("nova")
    reconciler()
    stage.deliver_others()
    assert stage.state.deferred_bursts.count() == 1
    stage.pass_time(seconds=11)
    reconciler()
    assert system.metrics.unbalanced_bursts._value.get() == 0


def test_overview_counts_deferred_bursts_separately() -> None:
    stage = stage_with_deferred_bursts()
    overview = build_overview(stage.system())
    snapshot = overview.read()
    assert (snapshot.unfinished_burst_count, snapshot.deferred_burst_count) == (0, 3)
    assert snapshot.shown_burst is not None
    assert snapshot.shown_burst.deferred_until is not None
    assert overview.watched_bursts == frozenset()


def test_ledger_shows_end_of_quiet_hours_of_a_deferred_slice() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    stage.mention("nova")
    stage.deliver_others()
    until = f"{START + NIGHT:%Y-%m-%dT%H:%M:%S}"
    slices: Any = ledger_json(stage.ports, stage.bursts()[0])["slices"]
    [deferred] = [line for line in slices if line["state"] == "deferred"]
    assert (deferred["step"], deferred["until"][:19]) == ("push.fcm", until)
    assert {line["until"] for line in slices if line["state"] != "deferred"} == {None}
