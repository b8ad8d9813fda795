"""The overview: what it says while a burst runs, is held back and ends, and while the cache is away."""

from datetime import timedelta

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import State
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import CacheUnavailable, StoreUnavailable
from notifier.flow.operations.overview import BurstOverview, Overview
from notifier.wiring.delivery import build_reconciler
from notifier.wiring.operations import build_overview
from tests.support.failing_ports import Refusing
from tests.support.in_memory_system import NOVA, Stage


def running(overview: Overview) -> BurstOverview:
    found = overview.read().running
    assert found is not None
    return found


def states(found: BurstOverview, tier: Tier) -> set[State]:
    [filling] = [each for each in found.fillings if each.tier is tier]
    return {span.state for span in filling.spans}


def test_with_nothing_to_do_there_is_no_burst_and_nobody_is_behind() -> None:
    stage = Stage()
    stage.dispatch()
    snapshot = build_overview(stage.system()).read()
    assert (snapshot.running, snapshot.open_bursts, snapshot.throttles) == (None, 0, [])
    assert snapshot.seconds_behind(Pool.P1) == 0.0


def test_a_burst_fills_from_planned_to_delivered_and_its_books_balance() -> None:
    stage = Stage()
    overview = build_overview(stage.system())
    stage.mention("nova")
    first = running(overview)
    assert first.burst.key.subject == NOVA
    assert states(first, Tier.P1) == {State.PLANNED}
    stage.dispatch()
    assert states(running(overview), Tier.P1) == {State.IN_FLIGHT}
    stage.deliver()
    last = running(overview)
    assert all(states(last, tier) == {State.DONE} for tier in (Tier.P0, Tier.P1, Tier.P2))
    assert last.settled
    assert last.books.balanced
    assert last.books.delivered == sum(filling.people for filling in last.fillings) > 0
    assert (last.books.in_flight, last.sealed) == (0, last.shards)
    assert all(filling.seconds is not None for filling in last.fillings)


def test_a_paused_tier_is_parked_and_is_not_called_late() -> None:
    stage = Stage()
    overview = build_overview(stage.system())
    stage.throttle(Tier.P2, seconds=60)
    stage.mention("nova")
    stage.deliver_others()
    snapshot = overview.read()
    assert snapshot.running is not None
    assert states(snapshot.running, Tier.P2) == {State.PARKED}
    assert states(snapshot.running, Tier.P1) == {State.DONE}
    assert snapshot.running.books.parked > 0
    assert snapshot.running.books.balanced
    assert [throttle.tier for throttle in snapshot.throttles] == [Tier.P2]
    assert snapshot.seconds_behind(Pool.P2) is None


def test_how_far_a_tier_is_behind_is_counted_from_its_oldest_burst() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(seconds=2)
    stage.dispatch()
    assert build_overview(stage.system()).read().seconds_behind(Pool.P1) == 2.0


def test_mentions_a_second_are_what_the_bursts_grew_by() -> None:
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


def test_the_pace_is_of_the_last_seconds_whoever_asks() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    stage.work()
    reached = sum(filling.people for filling in running(build_overview(stage.system())).fillings)
    overview = build_overview(stage.system())
    assert overview.read().pace.deliveries == (reached + 1) / 3  # nova has an item of her own
    stage.pass_time(seconds=4)
    assert overview.read().pace.deliveries == 0.0


def test_a_large_burst_stays_in_view_while_small_ones_come_and_go() -> None:
    stage = Stage()
    overview = build_overview(stage.system())
    stage.mention("nova")
    stage.deliver()
    stage.mention("kim")
    assert running(overview).burst.key.subject == NOVA


def test_a_seal_is_read_once() -> None:
    stage = Stage()
    overview = build_overview(stage.system())
    stage.mention("nova")
    stage.deliver()
    before = running(overview).books
    overview.seals = build_overview(stage.system(seals=Refusing(stage.ports.seals, StoreUnavailable))).seals
    assert running(overview).books == before


def test_without_the_cache_everything_else_is_told() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.deliver()
    snapshot = build_overview(stage.system(report=Refusing(stage.ports.report, CacheUnavailable))).read()
    assert not snapshot.cache.answers
    assert snapshot.seconds_behind(Pool.P0) is None
    assert snapshot.running is not None
    assert snapshot.running.books.balanced


def test_an_emptied_cache_has_another_generation() -> None:
    stage = Stage()
    system = stage.system()
    overview, reconciler = build_overview(system), build_reconciler(system)
    reconciler()
    before = overview.read().cache.generation
    stage.ground.pull.wipe()
    assert overview.read().cache.generation is None
    stage.pass_time(seconds=1)
    reconciler()
    assert overview.read().cache.generation not in (None, before)


def test_slices_left_are_told_by_pool() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    behind = build_overview(stage.system()).read().cache.behind
    assert behind[Pool.P1].slices > 0
    assert stage.ground.clock.now() - timedelta(seconds=1) < (behind[Pool.P1].since or stage.ground.clock.now())
