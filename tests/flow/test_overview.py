"""The operations overview during a burst, a pause and a cache outage."""

from datetime import timedelta

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import State
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import CacheUnavailable, StoreUnavailable
from notifier.flow.operations.overview import BurstOverview, Overview
from notifier.wiring.delivery import build_reconciler
from notifier.wiring.operations import build_overview
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.in_memory_system import NOVA, Stage


def shown_burst(overview: Overview) -> BurstOverview:
    burst = overview.read().shown_burst
    assert burst is not None
    return burst


def states(burst: BurstOverview, tier: Tier) -> set[State]:
    [tier_overview] = [overview for overview in burst.tiers if overview.tier is tier]
    return {span.state for span in tier_overview.spans}


def test_idle_system_has_no_burst_and_no_delay() -> None:
    stage = Stage()
    stage.dispatch()
    snapshot = build_overview(stage.system()).read()
    assert (snapshot.shown_burst, snapshot.unfinished_burst_count, snapshot.throttles) == (None, 0, [])
    assert snapshot.seconds_behind(Pool.P1) == 0.0


def test_burst_goes_from_planned_to_done_and_balances() -> None:
    stage = Stage()
    overview = build_overview(stage.system())
    stage.mention("nova")
    first = shown_burst(overview)
    assert first.burst.key.subject == NOVA
    assert states(first, Tier.P1) == {State.PLANNED}
    stage.dispatch()
    assert states(shown_burst(overview), Tier.P1) == {State.IN_FLIGHT}
    stage.deliver()
    last = shown_burst(overview)
    assert all(states(last, tier) == {State.DONE} for tier in (Tier.P0, Tier.P1, Tier.P2))
    assert last.is_finished
    assert last.totals.is_balanced
    assert last.totals.delivered == sum(tier.people for tier in last.tiers) > 0
    assert (last.totals.in_flight, last.counted_shards) == (0, last.shard_count)
    assert all(tier.seconds is not None for tier in last.tiers)


def test_paused_tier_is_parked_and_not_late() -> None:
    stage = Stage()
    overview = build_overview(stage.system())
    stage.throttle(Tier.P2, seconds=60)
    stage.mention("nova")
    stage.deliver_others()
    snapshot = overview.read()
    assert snapshot.shown_burst is not None
    assert states(snapshot.shown_burst, Tier.P2) == {State.PARKED}
    assert states(snapshot.shown_burst, Tier.P1) == {State.DONE}
    assert snapshot.shown_burst.totals.parked > 0
    assert snapshot.shown_burst.totals.is_balanced
    assert [throttle.tier for throttle in snapshot.throttles] == [Tier.P2]
    assert snapshot.seconds_behind(Pool.P2) is None


def test_delay_of_a_tier_is_the_age_of_its_oldest_burst() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(seconds=2)
    stage.dispatch()
    assert build_overview(stage.system()).read().seconds_behind(Pool.P1) == 2.0


def test_mention_rate_is_the_growth_of_the_bursts() -> None:
    stage = Stage()
    overview = build_overview(stage.system())
    stage.mention("nova")
    overview.read()
    for _ in range(6):
        stage.mention("nova")
    stage.pass_time(seconds=2)
    assert overview.read().mentions_per_second == 3.0
    stage.pass_time(seconds=1)
    assert overview.read().mentions_per_second == 0.0


def test_delivery_rate_covers_the_last_seconds() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    stage.work()
    reached = sum(tier.people for tier in shown_burst(build_overview(stage.system())).tiers)
    overview = build_overview(stage.system())
    assert overview.read().rate.deliveries == (reached + 1) / 3  # plus nova's own item
    stage.pass_time(seconds=4)
    assert overview.read().rate.deliveries == 0.0


def test_large_burst_stays_in_view_despite_smaller_newer_ones() -> None:
    stage = Stage()
    overview = build_overview(stage.system())
    stage.mention("nova")
    stage.deliver()
    stage.mention("kim")
    assert shown_burst(overview).burst.key.subject == NOVA


def test_snapshot_is_read_once() -> None:
    stage = Stage()
    overview = build_overview(stage.system())
    stage.mention("nova")
    stage.deliver()
    before = shown_burst(overview).totals
    overview.audience_snapshots = build_overview(
        stage.system(audience_snapshots=FailingPort(stage.ports.audience_snapshots, StoreUnavailable))
    ).audience_snapshots
    assert shown_burst(overview).totals == before


def test_overview_is_complete_without_the_cache() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.deliver()
    snapshot = build_overview(
        stage.system(backlog_report=FailingPort(stage.ports.backlog_report, CacheUnavailable))
    ).read()
    assert not snapshot.cache.is_available
    assert snapshot.seconds_behind(Pool.P0) is None
    assert snapshot.shown_burst is not None
    assert snapshot.shown_burst.totals.is_balanced


def test_wiped_cache_gets_a_new_generation() -> None:
    stage = Stage()
    system = stage.system()
    overview, reconciler = build_overview(system), build_reconciler(system)
    reconciler()
    before = overview.read().cache.generation
    stage.state.pull.wipe()
    assert overview.read().cache.generation is None
    stage.pass_time(seconds=1)
    reconciler()
    assert overview.read().cache.generation not in (None, before)


def test_remaining_slices_of_a_pool_are_counted() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    backlog = build_overview(stage.system()).read().cache.backlogs[Pool.P1]
    assert backlog.slices > 0
    assert backlog.oldest_opened_at is not None
    assert backlog.oldest_opened_at > stage.state.clock.now() - timedelta(seconds=1)
