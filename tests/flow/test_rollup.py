"""The roll-up: from looks to the sets of tiers, wherever it is cut off, whoever runs beside it, and without Redis."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from notifier.domain.audience.activity import LASTS, OF_THE_ACTIVE
from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import CacheUnavailable, StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.ports.directory import DirectoryEntry
from tests.flow.activity_world import (
    DAILY,
    HOUR,
    MINUTE,
    MONTHLY,
    WEEKLY,
    Corrupt,
    Dying,
    RejectsWrites,
    StallsBeforeWrite,
    World,
)
from tests.support.failing_ports import Refusing


def test_who_looked_is_active_after_the_next_round() -> None:
    world = World()
    job = world.job()
    job.run()
    world.visit(1, SHARD_MEMBERS + 2)
    world.clock.advance(MINUTE)
    job.run()
    assert world.all_active() == [[1, SHARD_MEMBERS + 2]] * 3


@pytest.mark.parametrize("kind", OF_THE_ACTIVE)
def test_who_doesn_t_come_back_leaves_each_set_in_time(kind: SetKind) -> None:
    world = World()
    world.visit(1)
    job = world.job()
    job.run()
    lasting = timedelta(days=LASTS[kind])
    world.clock.advance(lasting)
    job.run()
    assert world.active(kind) == [1]
    world.clock.advance(HOUR if kind is DAILY else timedelta(days=1))
    job.run()
    assert world.active(kind) == []


def test_hours_are_joined_and_not_replaced() -> None:
    world = World()
    job = world.job()
    for member in range(30):
        world.visit(member)
        job.run()
        world.clock.advance(HOUR)
    assert world.active(DAILY) == list(range(5, 30))
    assert world.active(WEEKLY) == world.active(MONTHLY) == list(range(30))


def test_what_was_loaded_stays_whoever_comes_and_goes() -> None:
    world = World()
    for kind, places in ((DAILY, (5,)), (WEEKLY, (5, 6)), (MONTHLY, (5, 6, 7))):
        world.import_active(kind, *places)
    job = world.job()
    world.visit(1)
    job.run()
    assert world.all_active() == [[1, 5], [1, 5, 6], [1, 5, 6, 7]]
    world.clock.advance(timedelta(days=60))
    job.run()
    assert world.all_active() == [[5], [5, 6], [5, 6, 7]]


@pytest.mark.parametrize(("reach", "days"), [(7, 7), (14, 14), (30, 30)])
def test_p2_reaches_as_far_as_it_is_told_whoever_looked_before_it_was(reach: int, days: int) -> None:
    world = World()
    world.visit(1)
    world.job().run()
    world.clock.advance(timedelta(days=days))
    job = world.job(reach=reach)
    job.run()
    assert world.active(MONTHLY) == [1]
    world.clock.advance(timedelta(days=1))
    job.run()
    assert world.active(MONTHLY) == []


def test_a_round_in_which_nobody_came_writes_no_bitmap() -> None:
    world = World()
    world.visit(1)
    job = world.job()
    job.run()
    stores = {"sets": RejectsWrites(world.sets), "stays": RejectsWrites(world.stays)}
    for name, port in stores.items():
        setattr(job, name, port)
    world.clock.advance(MINUTE)
    job.run()


def test_who_looked_on_a_clock_that_is_behind_counts_all_the_same() -> None:
    world = World()
    job = world.job()
    job.run()
    world.clock.advance(HOUR + MINUTE)
    world.visit(1, back=2 * MINUTE)
    job.run()
    assert world.active() == [1]


def test_an_heir_takes_what_was_told_while_nobody_led() -> None:
    world = World()
    world.job("a").run()
    for hour in range(5):
        world.visit(hour)
        world.clock.advance(HOUR)
    world.job("b").run()
    assert world.active() == [0, 1, 2, 3, 4]


def test_a_leader_that_was_kept_from_its_rounds_for_hours_takes_them_all() -> None:
    world = World()
    job = world.job()
    job.run()
    for hour in range(5):
        world.visit(hour)
        world.clock.advance(HOUR)
    job.run()
    assert world.active() == [0, 1, 2, 3, 4]


def test_while_another_leads_nothing_is_done() -> None:
    world = World()
    world.job("a").run()
    world.visit(1)
    world.job("b").run()
    assert world.active() == []


def test_activity_or_merge() -> None:
    """Two jobs in turns, each thinking that it leads, lose none of each other's members."""
    world = World()
    one, other = world.job("a"), world.job("b")
    for round in range(6):
        world.visit(2 * round)
        one.run()
        world.visit(2 * round + 1)
        world.clock.advance(3 * MINUTE)
        other.run()
        world.clock.advance(3 * MINUTE)
    one.run()
    other.run()
    assert world.all_active() == [list(range(12))] * 3


def test_a_zombie_that_awakes_between_its_read_and_its_write_loses() -> None:
    world = World()
    world.visit(1)

    def heir() -> None:
        world.clock.advance(3 * MINUTE)
        world.visit(2)
        world.job("b").run()

    world.job("a", sets=StallsBeforeWrite(world.sets, heir)).run()
    assert world.all_active() == [[1, 2]] * 3
    world.clock.advance(HOUR)
    world.job("b").run()
    assert world.all_active() == [[1, 2]] * 3


@pytest.mark.parametrize("port", ["directory", "hours", "stays", "sets"])
def test_cut_off_before_and_after_any_of_its_calls_nothing_is_lost_and_twice_is_once(port: str) -> None:
    """Dead at the nth call, before or after its effect; then itself again, and then an heir."""
    for nth, after in ((n, after) for n in count() for after in (False, True)):
        world = World()
        world.import_active(MONTHLY, 9)
        world.visit(1, SHARD_MEMBERS + 2)
        ports: dict[str, Any] = {port: Dying(getattr(world, port), nth, after=after)}
        job = world.job(**ports)
        try:
            job.run()
        except StoreUnavailable:
            world.visit(3)
            job.run()
        else:
            assert nth > 0
            return
        world.clock.advance(3 * MINUTE)
        world.job("b").run()
        world.job("b").run()
        assert world.all_active() == [[1, 3, SHARD_MEMBERS + 2]] * 2 + [[1, 3, 9, SHARD_MEMBERS + 2]]


def test_activity_lost_tiers_from_snapshot() -> None:
    """Redis is emptied: what was published stays, through the next hours and under another leader, and it is said."""
    world = World()
    job = world.job()
    world.visit(1)
    job.run()
    world.visit(2)
    world.hours.wipe()
    assert world.hours.last_rolled_up() is None
    world.clock.advance(MINUTE)
    job.run()
    assert (world.active(), world.counted("activity_emptied")) == ([1], 1)
    world.clock.advance(3 * HOUR)
    world.visit(3)
    job.run()
    world.job("b").run()
    assert (world.all_active(), world.counted("activity_emptied")) == ([[1, 3]] * 3, 1)


def test_while_redis_is_away_nobody_grows_idle() -> None:
    world = World()
    world.visit(1)
    job = world.job()
    job.run()
    job.hours = Refusing(world.hours, CacheUnavailable)
    world.clock.advance(timedelta(days=40))
    with pytest.raises(CacheUnavailable):
        job.run()
    assert world.all_active() == [[1]] * 3


def test_a_clock_that_is_set_back_an_hour_drops_nobody_and_loses_nobody() -> None:
    world = World()
    world.visit(1)
    job = world.job()
    job.run()
    world.clock.advance(-HOUR)
    world.visit(2)
    job.run()
    assert world.active() == [1, 2]
    world.clock.advance(HOUR)
    world.visit(3)
    job.run()
    assert world.all_active() == [[1, 2, 3]] * 3


def test_shards_of_which_something_can_t_be_read_stand_alone() -> None:
    world = World()
    world.directory.enrol([DirectoryEntry(user=UserId("far"), member=Member(40 * SHARD_MEMBERS))])
    world.visit(1, 40 * SHARD_MEMBERS)
    world.job(stays=Corrupt(world.stays)).run()
    far = world.sets.read(DAILY, None, [40])
    assert [members(bits, 40) for bits in far.values()] == [[40 * SHARD_MEMBERS]]
    assert (world.active(), world.counted("activity_unreadable")) == ([], 1)
