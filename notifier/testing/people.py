"""Some people of a world, a few of every class: those whose tabs a check opens one by one."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.ids import Member, UserId
from notifier.testing.world import ACTIVE_7D, ACTIVE_24H, ACTIVE_30D, Flags, Members, World, user

OF_EACH = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    user: UserId
    member: Member
    kind: str

    @property
    def number(self) -> Members:
        return np.array([self.member], dtype=np.int64)


def sample(world: World, seed: int) -> list[Person]:
    """The same for the same seed; fewer where the world has none of a class."""
    chance = np.random.default_rng(seed)
    m = np.unique(chance.integers(0, world.universe, size=min(world.universe, 2 * SHARD_MEMBERS), dtype=np.int64))
    found = [
        Person(user=user(number), member=Member(number), kind=kind)
        for kind, flags in _classes(world, m)
        for number in chance.permutation(m[flags])[:OF_EACH].tolist()
    ]
    stars = [
        Person(user=name, member=world.star_member(star), kind="celebrity")
        for star, name in enumerate(world.names[:OF_EACH])
    ]
    return list({person.user: person for person in (*found, *stars)}.values())


def any_dormant(world: World) -> bool:
    """Whether somebody follows and sees the first celebrity and was away for so long that no row is written."""
    for first in range(0, world.universe, SHARD_MEMBERS):
        m = np.arange(first, min(first + SHARD_MEMBERS, world.universe), dtype=np.int64)
        if np.any(world.follows(0, m) & ~world.mutes(0, m) & (world.idleness(m) >= ACTIVE_30D)):
            return True
    return False


def _classes(world: World, m: Members) -> Iterator[tuple[str, Flags]]:
    follows, idle = _any(world, m), world.idleness(m)
    first, mutes = world.follows(0, m), world.mutes(0, m)
    yield "vip", first & world.vip(m) & (idle < ACTIVE_7D)
    yield "idle vip", first & world.vip(m) & (idle >= ACTIVE_30D)
    yield "active in 24 h", first & (idle < ACTIVE_24H)
    yield "active in 7 d", first & (idle >= ACTIVE_24H) & (idle < ACTIVE_7D)
    yield "active in 30 d", first & (idle >= ACTIVE_7D) & (idle < ACTIVE_30D)
    yield "dormant", first & (idle >= ACTIVE_30D)
    yield "muted", first & mutes
    yield "follower of a small one", world.follows(world.celebrities - 1, m)
    yield "follower of the second", world.follows(min(1, world.celebrities - 1), m) & ~mutes
    yield "non-follower", ~follows


def _any(world: World, m: Members) -> Flags:
    found = np.zeros(len(m), dtype=np.bool_)
    for star in range(world.celebrities):
        found |= world.follows(star, m)
    return found
