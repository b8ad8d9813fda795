"""The world of the fixture: people and celebrities by formula, so that anybody can compute who must see what.

Everything is whole-number arithmetic on member numbers; docs/fixture.md tells the same to those who don't read Python.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from math import gcd

import numpy as np
import numpy.typing as npt

from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.ids import Kind, Member, Subject, UserId

Members = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NAMES = (
    *("nova", "orion", "lyra", "vega", "atlas", "rhea", "juno", "ceres"),
    *("pallas", "vesta", "io", "luna", "mira", "rigel", "altair", "deneb"),
)
"""Of the first celebrities; the others are `star17`, `star18` and so on."""

SINCE = datetime(2020, 1, 1, tzinfo=UTC)
"""`visible_from` of every follow."""

SPREAD = 2_654_435_761
"""Scatters followers over the universe; raised by 2 until it has no divisor in common with it."""
APART = 100_003
"""Gives each celebrity followers of its own."""
SIZES = 6
"""Every celebrity has a quarter of the followers of the one before, and the seventh as many as the first."""

ACTIVE_24H, ACTIVE_7D, ACTIVE_30D = 50, 80, 250
"""Out of 1,000 people."""
VIP_EVERY = 9973
MUTED_EVERY = 211
PUSH, PUSH_OF = 4, 7
"""Four VIPs of seven have a device: those whom the few active VIPs of a small world are among."""
OTHERS = 4_000
"""Who aren't VIPs and have one, about so many: in a world of few every second one."""
UNLIKE = 3 * 5 * 13 * MUTED_EVERY * VIP_EVERY
"""What the distance between them has no divisor in common with: else all would have one platform, language or idleness,
or mute the same celebrities."""


@dataclass(frozen=True, kw_only=True)
class World:
    universe: int
    """People: `u0` has the member number 0, and so on."""
    followers: int
    """Of the first celebrity."""
    celebrities: int
    seed: int
    second_followers: int | None = None
    """Of the second celebrity, where they aren't a quarter of the first one's."""

    def __post_init__(self) -> None:
        """Raises ValueError with the sentence that says what doesn't fit."""
        if min(self.universe, self.followers, self.celebrities) < 1:
            raise ValueError("A world has at least one person, one follower and one celebrity.")
        if self.followers > self.universe:
            raise ValueError(f"{self.followers:,} followers don't fit into {self.universe:,} people.")
        if self.second_followers is not None and not (
            self.celebrities > 1 and 1 <= self.second_followers <= self.universe
        ):
            raise ValueError("The second celebrity's followers need a second celebrity, and fit into the people.")
        if not 0 <= self.seed < 2**31 or self.universe > 2**31 or self.celebrities > 2**17:
            raise ValueError("Seed and universe end at 2^31, celebrities at 131,072.")

    @cached_property
    def spread(self) -> int:
        found = SPREAD
        while gcd(found, self.universe) != 1:
            found += 2
        return found

    @property
    def shards(self) -> int:
        """That people live in."""
        return -(-self.universe // SHARD_MEMBERS)

    @cached_property
    def names(self) -> tuple[UserId, ...]:
        return tuple(UserId(NAMES[i] if i < len(NAMES) else f"star{i + 1}") for i in range(self.celebrities))

    @cached_property
    def stars(self) -> dict[UserId, int]:
        """The celebrities' places in the formulas, by name."""
        return {name: i for i, name in enumerate(self.names)}

    def star_member(self, star: int) -> Member:
        """Celebrities live in the shards behind the people's."""
        return Member(self.shards * SHARD_MEMBERS + star)

    def subject(self, star: int) -> Subject:
        return Subject(Kind.MENTION, self.names[star])

    def size(self, star: int) -> int:
        """Followers of the celebrity, those who muted it included."""
        if star == 1 and self.second_followers is not None:
            return self.second_followers
        return max(1, self.followers >> (2 * (star % SIZES)))

    def place(self, star: int, m: int) -> int:
        """Where the member stands in the celebrity's line: each place in the universe is taken once."""
        return (m * self.spread + star * APART + self.seed) % self.universe

    def follows(self, star: int, m: Members) -> Flags:
        return (m * self.spread + (star * APART + self.seed)) % self.universe < self.size(star)

    def mutes(self, star: int, m: Members) -> Flags:
        """Of those who follow."""
        muting: Flags = (m + (31 * star + self.seed)) % MUTED_EVERY == 0
        return muting

    def idleness(self, m: Members) -> Members:
        return (m * 619 + self.seed * 17) % 1000

    def vip(self, m: Members) -> Flags:
        vip: Flags = m % VIP_EVERY == self.seed % VIP_EVERY
        return vip

    @cached_property
    def device_every(self) -> int:
        """Whoever has one without being a VIP lives so far from the next."""
        found = max(2, self.universe // OTHERS)
        while gcd(found, UNLIKE) != 1:
            found += 1
        return found

    def push(self, m: Members) -> Flags:
        """Who has a device: some VIPs, and a few of all, so that there are no more of them than can be loaded at once
        and told within seconds."""
        return self.vip_push(m) | self.other_push(m)

    def vip_push(self, m: Members) -> Flags:
        return self.vip(m) & (m % PUSH_OF >= PUSH_OF - PUSH)

    def other_push(self, m: Members) -> Flags:
        """VIPs may be among them."""
        others: Flags = m % self.device_every == self._first_other
        return others

    @property
    def _first_other(self) -> int:
        """Somebody who is there also where there is nobody else."""
        return self.seed % min(self.device_every, self.universe)

    def reachable(self) -> Members:
        """Everybody with a device, in order; it looks at nobody else."""
        vips = np.arange(self.seed % VIP_EVERY, self.universe, VIP_EVERY, dtype=np.int64)
        others = np.arange(self._first_other, self.universe, self.device_every, dtype=np.int64)
        return np.union1d(vips[self.vip_push(vips)], others)


def user(m: int) -> UserId:
    return UserId(f"u{m}")
