"""Activity roll-up: from visits to active sets, despite crashes, concurrent leaders and Redis loss."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from notifier.domain.audience.activity import ACTIVE_DAYS, ACTIVE_SET_KINDS
from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import CacheUnavailable, StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.flow.in_memory_activity_rollup import (
    DAILY,
    HOUR,
    MINUTE,
    MONTHLY,
    WEEKLY,
    Corrupt,
    FailsAtCall,
    RejectsWrites,
    StallsBeforeWrite,
    World,
)
from tests.support.failing_and_corrupt_ports import FailingPort


def test_visitor_is_active_after_the_next_round() -> None:
    world = World()
    roll_up = world.roll_up()
    roll_up.run()
    world.visit(1, SHARD_MEMBERS + 2)
    world.clock.advance(MINUTE)
    roll_up.run()
    assert world.all_active() == [[1, SHARD_MEMBERS + 2]] * 3


@pytest.mark.parametrize("kind", ACTIVE_SET_KINDS)
def test_idle_user_leaves_each_active_set_in_time(kind: SetKind) -> None:
    world = World()
    world.visit(1)
    roll_up = world.roll_up()
    roll_up.run()
    lasting = timedelta(days=ACTIVE_DAYS[kind])
    world.clock.advance(lasting)
    roll_up.run()
    assert world.active(kind) == [1]
    world.clock.advance(HOUR if kind is DAILY else timedelta(days=1))
    roll_up.run()
    assert world.active(kind) == []


def test_active_sets_are_the_union_of_hours() -> None:
    world = World()
    roll_up = world.roll_up()
    for member in range(30):
        world.visit(member)
        roll_up.run()
        world.clock.advance(HOUR)
    assert world.active(DAILY) == list(range(5, 30))
    assert world.active(WEEKLY) == world.active(MONTHLY) == list(range(30))


def test_imported_active_members_stay() -> None:
    world = World()
    for kind, places in ((DAILY, (5,)), (WEEKLY, (5, 6)), (MONTHLY, (5, 6, 7))):
        world.import_active(kind, *places)
    roll_up = world.roll_up()
    world.visit(1)
    roll_up.run()
    assert world.all_active() == [[1, 5], [1, 5, 6], [1, 5, 6, 7]]
    world.clock.advance(timedelta(days=60))
    roll_up.run()
    assert world.all_active() == [[5], [5, 6], [5, 6, 7]]


@pytest.mark.parametrize("days", [7, 14, 30])
def test_monthly_set_covers_the_configured_days(days: int) -> None:
    world = World()
    world.visit(1)
    world.roll_up().run()
    world.clock.advance(timedelta(days=days))
    roll_up = world.roll_up(p2_days=days)
    roll_up.run()
    assert world.active(MONTHLY) == [1]
    world.clock.advance(timedelta(days=1))
    roll_up.run()
    assert world.active(MONTHLY) == []


def test_round_without_visits_writes_no_bitmap() -> None:
    world = World()
    world.visit(1)
    roll_up = world.roll_up()
    roll_up.run()
    stores = {"sets": RejectsWrites(world.sets), "active_sets": RejectsWrites(world.active_sets)}
    for name, port in stores.items():
        setattr(roll_up, name, port)
    world.clock.advance(MINUTE)
    roll_up.run()


def test_visit_recorded_by_a_slow_clock_counts() -> None:
    world = World()
    roll_up = world.roll_up()
    roll_up.run()
    world.clock.advance(HOUR + MINUTE)
    world.visit(1, ago=2 * MINUTE)
    roll_up.run()
    assert world.active() == [1]


def test_successor_processes_visits_without_a_leader() -> None:
    world = World()
    world.roll_up("a").run()
    for hour in range(5):
        world.visit(hour)
        world.clock.advance(HOUR)
    world.roll_up("b").run()
    assert world.active() == [0, 1, 2, 3, 4]


def test_delayed_leader_processes_all_missed_hours() -> None:
    world = World()
    roll_up = world.roll_up()
    roll_up.run()
    for hour in range(5):
        world.visit(hour)
        world.clock.advance(HOUR)
    roll_up.run()
    assert world.active() == [0, 1, 2, 3, 4]


def test_roll_up_does_nothing_while_another_leads() -> None:
    world = World()
    world.roll_up("a").run()
    world.visit(1)
    world.roll_up("b").run()
    assert world.active() == []


def test_concurrent_leaders_lose_no_members() -> None:
    """Two roll-ups that both believe to lead lose no members of each other."""
    world = World()
    first, second = world.roll_up("a"), world.roll_up("b")
    for round in range(6):
        world.visit(2 * round)
        first.run()
        world.visit(2 * round + 1)
        world.clock.advance(3 * MINUTE)
        second.run()
        world.clock.advance(3 * MINUTE)
    first.run()
    second.run()
    assert world.all_active() == [list(range(12))] * 3


def test_stalled_leader_does_not_overwrite_newer_sets() -> None:
    world = World()
    world.visit(1)

    def successor() -> None:
        world.clock.advance(3 * MINUTE)
        world.visit(2)
        world.roll_up("b").run()

    world.roll_up("a", sets=StallsBeforeWrite(world.sets, successor)).run()
    assert world.all_active() == [[1, 2]] * 3
    world.clock.advance(HOUR)
    world.roll_up("b").run()
    assert world.all_active() == [[1, 2]] * 3


@pytest.mark.parametrize("port", ["directory", "hours", "active_sets", "sets"])
def test_crash_at_any_call_loses_no_activity(port: str) -> None:
    """The roll-up crashes at one call, before or after its effect; then it runs again, and then a successor."""
    for nth, after in ((n, after) for n in count() for after in (False, True)):
        world = World()
        world.import_active(MONTHLY, 9)
        world.visit(1, SHARD_MEMBERS + 2)
        ports: dict[str, Any] = {port: FailsAtCall(getattr(world, port), nth, after=after)}
        roll_up = world.roll_up(**ports)
        try:
            roll_up.run()
        except StoreUnavailable:
            world.visit(3)
            roll_up.run()
        else:
            assert nth > 0
            return
        world.clock.advance(3 * MINUTE)
        world.roll_up("b").run()
        world.roll_up("b").run()
        assert world.all_active() == [[1, 3, SHARD_MEMBERS + 2]] * 2 + [[1, 3, 9, SHARD_MEMBERS + 2]]


def test_redis_wipe_keeps_published_active_sets() -> None:
    """After a Redis wipe, published sets stay for the next hours and under another leader, and the wipe is counted."""
    world = World()
    roll_up = world.roll_up()
    world.visit(1)
    roll_up.run()
    world.visit(2)
    world.hours.wipe()
    assert world.hours.last_roll_up() is None
    world.clock.advance(MINUTE)
    roll_up.run()
    assert (world.active(), world.counted("activity_emptied")) == ([1], 1)
    world.clock.advance(3 * HOUR)
    world.visit(3)
    roll_up.run()
    world.roll_up("b").run()
    assert (world.all_active(), world.counted("activity_emptied")) == ([[1, 3]] * 3, 1)


def test_redis_outage_makes_no_user_idle() -> None:
    world = World()
    world.visit(1)
    roll_up = world.roll_up()
    roll_up.run()
    roll_up.hours = FailingPort(world.hours, CacheUnavailable)
    world.clock.advance(timedelta(days=40))
    with pytest.raises(CacheUnavailable):
        roll_up.run()
    assert world.all_active() == [[1]] * 3


def test_clock_set_back_an_hour_loses_no_members() -> None:
    world = World()
    world.visit(1)
    roll_up = world.roll_up()
    roll_up.run()
    world.clock.advance(-HOUR)
    world.visit(2)
    roll_up.run()
    assert world.active() == [1, 2]
    world.clock.advance(HOUR)
    world.visit(3)
    roll_up.run()
    assert world.all_active() == [[1, 2, 3]] * 3


def test_unreadable_shards_do_not_affect_others() -> None:
    world = World()
    world.directory.enrol([DirectoryEntry(user=UserId("far"), member=Member(40 * SHARD_MEMBERS))])
    world.visit(1, 40 * SHARD_MEMBERS)
    world.roll_up(active_sets=Corrupt(world.active_sets)).run()
    far = world.sets.read(DAILY, None, [40])
    assert [members(bits, 40) for bits in far.values()] == [[40 * SHARD_MEMBERS]]
    assert (world.active(), world.counted("activity_unreadable")) == ([], 1)
