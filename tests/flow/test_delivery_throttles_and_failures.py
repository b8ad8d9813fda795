"""Delivery of slices: throttles, lost or duplicate tasks, expiry, outages and a Redis wipe."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.delivery.ledger import MAX_ATTEMPTS, Fact
from notifier.domain.delivery.slice_and_pool import POOL_TIMINGS, Pool, Retry, Step
from notifier.domain.delivery.throttle_and_backpressure import RAMP
from notifier.domain.errors import DiskFull, NotifierError, SchemaOlder, StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.ports.ledger_claims_deferred_bursts_scan import Ledger
from notifier.wiring.delivery import build_dispatcher, build_reconciler, build_slice_worker
from tests.support.failing_and_corrupt_ports import FailingPort, FailingRecords
from tests.support.in_memory_system import NOVA, Stage


def final_facts(stage: Stage, tier: Tier) -> set[Fact]:
    [progress] = [
        progress for progress in stage.state.store_scan.burst_progress() if progress.plan.burst.subject == NOVA
    ]
    statuses = [
        status
        for status in progress.slice_states.values()
        if status.slice.tier is tier and status.slice.step is Step.ROWS
    ]
    return {status.final_entry.fact for status in statuses if status.final_entry}


@pytest.mark.parametrize("pool", [Pool.P0, Pool.P1, Pool.P2])
def test_lost_task_is_requeued_within_its_tiers_deadline(pool: Pool) -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    stage.dispatch()  # P2 gives way to P1 in the first round
    lost_slices = list(stage.state.queue.waiting[pool])
    assert lost_slices
    stage.state.queue.waiting[pool].clear()
    stage.state.clock.advance(POOL_TIMINGS[pool].requeue_after / 2)
    stage.dispatch()
    assert stage.state.queue.waiting[pool] == []
    stage.state.clock.advance(POOL_TIMINGS[pool].requeue_after / 2)
    stage.dispatch()
    assert sorted(stage.state.queue.waiting[pool]) == sorted(lost_slices)


def test_duplicate_task_sends_no_second_alert() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    for slices in stage.state.queue.waiting.values():
        slices.extend(list(slices))
    stage.work()
    stage.deliver()
    alerts = [(sent.burst, device.member) for sent, device in stage.state.phones.arrived]
    assert len(alerts) == len(set(alerts))


def test_duplicate_task_after_the_claim_expired_is_refused() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.deliver()
    stage.pass_time(seconds=3_600)
    work, slices = (
        build_slice_worker(stage.system()),
        [slice_ for progress in stage.state.store_scan.burst_progress() for slice_ in progress.slice_states],
    )
    assert slices
    assert [work(slice_) for slice_ in slices] == [Retry(reason="the slice has ended")] * len(slices)


def test_retried_slice_keeps_row_keys_after_its_burst_moved() -> None:
    """A slow publisher may set a later opening time after work on the slices began.

    Here each worker crashes after its rows, before the ledger has them.
    """
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    key = BurstKey(NOVA, 1)
    opened = stage.state.ledger.read([key])[key].plan.opened_at
    work = build_slice_worker(stage.system(ledger=FailingRecords(stage.state.ledger)))
    for slice_ in [
        slice_ for slices in stage.state.queue.waiting.values() for slice_ in slices if slice_.step is Step.ROWS
    ]:
        assert isinstance(work(slice_), Retry)
    before = list(stage.state.store_scan.rows(key))
    assert before
    burst = stage.state.bursts.read([key])[key]
    later = burst.opened_at + timedelta(seconds=3)
    stage.state.bursts.write([replace(burst, version=burst.version + 1, opened_at=later)], [])
    stage.pass_time(seconds=61)
    stage.deliver()
    assert final_facts(stage, Tier.P1) == {Fact.DONE}
    rows = list(stage.state.store_scan.rows(key))
    assert {stored.row.opened_at for stored in rows} == {opened}
    assert len(rows) == len({(stored.member_range, stored.row.tier) for stored in rows}) >= len(before)


def test_paused_tier_is_parked_and_resumes() -> None:
    stage = Stage()
    stage.throttle(Tier.P1, seconds=60)
    stage.mention("nova")
    for _ in range(10):
        stage.dispatch()
        stage.work()
        stage.pass_time(seconds=5)
    assert final_facts(stage, Tier.P1) == set()
    assert final_facts(stage, Tier.P0) == {Fact.DONE}
    assert stage.sees("lee") == ["mention:nova#1"]
    [progress] = [a for a in stage.state.store_scan.burst_progress() if a.plan.burst.subject == NOVA]
    parked = [s for s in progress.slice_states.values() if s.parked_by == {"t1"}]
    assert {(s.slice.tier, s.slice.step) for s in parked} == {(Tier.P1, Step.ROWS)}
    stage.pass_time(seconds=10)
    stage.deliver(rounds=90)
    assert final_facts(stage, Tier.P1) == {Fact.DONE}


def test_tier_ramps_up_after_a_pause() -> None:
    stage = Stage()
    stage.throttle(Tier.P1, seconds=10)
    stage.mention("nova")
    stage.dispatch()
    stage.work()
    stage.pass_time(seconds=10)
    stage.dispatch()
    assert stage.state.queue.depth(Pool.P1) == 0
    for _ in range(int(RAMP.total_seconds())):
        stage.pass_time(seconds=1)
        stage.dispatch()
    assert stage.state.queue.depth(Pool.P1) > 0


def test_expired_slices_have_a_snapshot_and_are_pulled() -> None:
    stage = Stage()
    stage.throttle(Tier.P2, seconds=7 * 3600)
    stage.mention("nova")
    stage.deliver_others()
    stage.state.clock.advance(POOL_TIMINGS[Pool.P2].expires_after)
    stage.deliver()
    assert final_facts(stage, Tier.P2) == {Fact.PULLED}
    assert not [stored for stored in stage.state.store_scan.rows() if stored.row.tier is Tier.P2]
    [progress] = [a for a in stage.state.store_scan.burst_progress() if a.plan.burst.subject == NOVA]
    pulled = [
        s.final_entry for s in progress.slice_states.values() if s.final_entry and s.final_entry.fact is Fact.PULLED
    ]
    snapshots = list(stage.state.store_scan.audience_snapshots(progress.plan.burst))
    people = sum(entry.people for entry in pulled if entry.slice.step is Step.ROWS)
    assert people == sum(snapshot.reached_count(Tier.P2) for snapshot in snapshots) > 0
    assert stage.sees("pat") == ["mention:nova#1"]


def test_inbox_is_correct_and_index_rebuilt_after_redis_wipe() -> None:
    stage = Stage()
    reconciler = build_reconciler(stage.system())
    reconciler()
    stage.mention("nova")
    assert stage.state.pull.generation() is not None
    stage.state.wipe()
    assert stage.sees("kim") == ["mention:nova#1"]
    assert stage.state.pull.generation() is None
    stage.pass_time(seconds=1)
    reconciler()
    assert stage.state.pull.generation() is not None
    assert stage.sees("kim") == ["mention:nova#1"]


def test_process_without_the_lease_repairs_its_index_entries() -> None:
    stage = Stage()
    leader, follower = build_reconciler(stage.system()), build_reconciler(stage.system(leases=OwnedElsewhere()))
    leader()
    stage.mention("nova")
    stage.state.wipe()
    follower()
    assert stage.state.pull.generation() is not None


def test_settled_burst_is_closed_after_the_store_refused_once() -> None:
    stage = Stage()
    stage.mention("nova")
    ledger = RefusesFirstUnlisting(stage.state.ledger)
    dispatcher = build_dispatcher(stage.system(ledger=ledger))
    refused = 0
    for _ in range(10):
        try:
            dispatcher()
        except StoreUnavailable:
            refused += 1
        stage.work()
        stage.pass_time(seconds=1)
    assert refused == 1
    assert stage.state.ledger.unfinished_bursts() == []


@pytest.mark.parametrize("outage", [StoreUnavailable, DiskFull, SchemaOlder])
def test_outage_does_not_consume_attempts_of_a_slice(outage: type[NotifierError]) -> None:
    stage = Stage()
    stage.mention("nova")
    work = build_slice_worker(stage.system(audience_snapshots=FailingPort(stage.state.audience_snapshots, outage)))
    for _ in range(2 * MAX_ATTEMPTS):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=61)
    assert stage.state.ledger.unfinished_bursts() != []
    stage.deliver()
    assert [final_facts(stage, tier) for tier in TIERS] == [{Fact.DONE}] * 3


class RefusesFirstUnlisting:
    """A ledger that refuses the first `unlist`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._refused = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def unlist(self, bursts: Collection[BurstKey]) -> None:
        if not self._refused:
            self._refused = True
            raise StoreUnavailable("for a test")
        self._ledger.unlist(bursts)


class OwnedElsewhere:
    """Leases that another process always owns."""

    def acquire(self, *_: object) -> bool:
        return False
