"""The attendant: who was seen elsewhere is around; twice is once, and while Redis is away nobody is forgotten."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.mention import EventId
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member, UserId
from notifier.flow.indexing.activity import Attendant
from notifier.ports.directory import DirectoryEntry
from notifier.ports.event_log import Logged, Record
from tests.flow.activity_world import HOUR, MINUTE, World
from tests.support.fakes.audience import MemoryActiveHours


def attendant(world: World, **ports: Any) -> Attendant:
    return Attendant(directory=world.directory, hours=ports.get("hours", world.hours), clock=world.clock)


def seen(world: World, *users: str, ago: timedelta = MINUTE) -> list[Logged]:
    told = [Sighting(id=EventId("logins", user), user=UserId(user), at=world.clock.now() - ago) for user in users]
    records = [Record(stream=topics.ACTIVITY, key=one.user, value=pack(one)) for one in told]
    return [Logged(partition="activity/0", offset=n, record=record) for n, record in enumerate(records)]


def world() -> World:
    found = World()
    found.directory.enrol(
        [DirectoryEntry(user=UserId(name), member=Member(n)) for n, name in enumerate(("ada", "bea"))]
    )
    return found


def test_who_was_seen_is_active_from_the_next_roll_up_on() -> None:
    here = world()
    attendant(here)(seen(here, "ada"))
    here.visit(1)
    here.job().run()
    assert here.all_active() == [[0, 1]] * 3


def test_who_was_seen_hours_ago_counts_and_who_was_seen_a_day_ago_does_not() -> None:
    here = world()
    attendant(here)([*seen(here, "ada", ago=23 * HOUR), *seen(here, "bea", ago=24 * HOUR)])
    here.job().run()
    assert here.active() == [0]


def test_what_comes_again_changes_nothing() -> None:
    here = world()
    told = seen(here, "ada", "ada", "bea")
    attendant(here)(told)
    attendant(here)(told[1:])
    here.job().run()
    assert here.active() == [0, 1]


def test_a_stranger_is_given_a_number_and_is_around_when_somebody_is_followed() -> None:
    here = world()
    attendant(here)(seen(here, "stranger"))
    member = here.directory.accounts([UserId("stranger")])[UserId("stranger")].member
    assert here.directory.users([member]) == {member: "stranger"}
    assert here.activity.hours


class Away(MemoryActiveHours):
    def touch(self, members: Collection[Member], hour: int) -> None:
        raise CacheUnavailable()


def test_while_the_hours_cannot_be_noted_the_log_keeps_what_was_said() -> None:
    here = world()
    told = seen(here, "ada")
    with pytest.raises(CacheUnavailable):
        attendant(here, hours=Away(here.activity, here.clock))(told)
    attendant(here)(told)
    here.job().run()
    assert here.active() == [0]
