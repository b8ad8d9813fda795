"""Activity indexer: sightings make users active, repeats change nothing, and a Redis outage loses none."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member, UserId
from notifier.flow.indexing.activity_indexer_and_rollup import ActivityIndexer
from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.flow.in_memory_activity_rollup import HOUR, MINUTE, World
from tests.support.fakes.activity_member_sets_and_follows import MemoryActiveHours


def activity_indexer(world: World, **ports: Any) -> ActivityIndexer:
    return ActivityIndexer(directory=world.directory, hours=ports.get("hours", world.hours), clock=world.clock)


def seen(world: World, *users: str, ago: timedelta = MINUTE) -> list[Logged]:
    sightings = [Sighting(id=EventId("logins", user), user=UserId(user), at=world.clock.now() - ago) for user in users]
    records = [Record(stream=topics.ACTIVITY, key=sighting.user, value=pack(sighting)) for sighting in sightings]
    return [Logged(partition="activity/0", offset=n, record=record) for n, record in enumerate(records)]


def make_world() -> World:
    world = World()
    world.directory.enrol(
        [DirectoryEntry(user=UserId(name), member=Member(n)) for n, name in enumerate(("ada", "bea"))]
    )
    return world


def test_seen_user_is_active_after_next_rollup() -> None:
    world = make_world()
    activity_indexer(world)(seen(world, "ada"))
    world.visit(1)
    world.roll_up().run()
    assert world.all_active() == [[0, 1]] * 3


def test_sighting_counts_for_less_than_a_day() -> None:
    world = make_world()
    activity_indexer(world)([*seen(world, "ada", ago=23 * HOUR), *seen(world, "bea", ago=24 * HOUR)])
    world.roll_up().run()
    assert world.active() == [0]


def test_repeated_sightings_change_nothing() -> None:
    world = make_world()
    records = seen(world, "ada", "ada", "bea")
    activity_indexer(world)(records)
    activity_indexer(world)(records[1:])
    world.roll_up().run()
    assert world.active() == [0, 1]


def test_unknown_user_gets_a_number_and_is_active() -> None:
    world = make_world()
    activity_indexer(world)(seen(world, "stranger"))
    member = world.directory.accounts([UserId("stranger")])[UserId("stranger")].member
    assert world.directory.users([member]) == {member: "stranger"}
    [active_bits] = world.activity.hours.values()
    assert any(active_bits)


class Unavailable(MemoryActiveHours):
    def touch(self, members: Collection[Member], hour: int) -> None:
        raise CacheUnavailable()


def test_sightings_are_retried_from_the_log_after_redis_outage() -> None:
    world = make_world()
    records = seen(world, "ada")
    with pytest.raises(CacheUnavailable):
        activity_indexer(world, hours=Unavailable(world.activity, world.clock))(records)
    activity_indexer(world)(records)
    world.roll_up().run()
    assert world.active() == [0]
