"""Alternative designs of audiences: followers in a table, a sorted set, or Bloom filters."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from notifier.adapters.redis.connect import RedisClient
from notifier.devkit.fixture.world import ACTIVE_7D, ACTIVE_24H, ACTIVE_30D, Members, World
from notifier.domain.audience.tiers_and_member_sets import Tier

FOLLOWERS_PER_PAGE = 100_000
Tiers = Counter[Tier]
"""Number of followers by tier. A tier without followers is missing."""

_TABLES = """
    CREATE TABLE followers (followed INTEGER, follower INTEGER, PRIMARY KEY (followed, follower)) WITHOUT ROWID;
    CREATE TABLE users (user INTEGER PRIMARY KEY, vip INTEGER, idle INTEGER);
"""
_PAGE = f"""
    SELECT follower, vip, idle FROM followers JOIN users ON user = follower
    WHERE followed = 1 AND follower > ? ORDER BY follower LIMIT {FOLLOWERS_PER_PAGE}
"""
_IDS = (
    f"SELECT follower FROM followers WHERE followed = 1 AND follower > ? ORDER BY follower LIMIT {FOLLOWERS_PER_PAGE}"
)


class AudienceSource(Protocol):
    def tiers(self) -> Tiers:
        """Put each follower into the list of a tier, and count them. The lists of a page are dropped with the page."""
        ...

    def size(self) -> int:
        """Return the bytes that the followers take, without the facts about each user."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerTable:
    """Pages by key, joined with the facts about each follower."""

    db: sqlite3.Connection

    @classmethod
    def filled(cls, file: Path, world: World) -> "FollowerTable":
        db = sqlite3.connect(file)
        db.executescript(_TABLES)
        for m in _numbers(world):
            vip, idle = world.vip(m).tolist(), world.idleness(m).tolist()
            db.executemany("INSERT INTO users VALUES (?, ?, ?)", zip(m.tolist(), vip, idle, strict=True))
            db.executemany(
                "INSERT INTO followers VALUES (1, ?)", ((follower,) for follower in m[world.follows(0, m)].tolist())
            )
        db.commit()
        return cls(db=db)

    def tiers(self) -> Tiers:
        counts, last = Counter[Tier](), -1
        while page := self.db.execute(_PAGE, (last,)).fetchall():
            lists: dict[Tier, list[int]] = {tier: [] for tier in Tier}
            for follower, vip, idle in page:
                lists[_tier(vip, idle)].append(follower)
            counts.update({tier: len(followers) for tier, followers in lists.items()})
            last = page[-1][0]
        return counts

    def pages(self) -> Iterator[Members]:
        last = -1
        while page := self.db.execute(_IDS, (last,)).fetchall():
            yield np.fromiter((follower for (follower,) in page), dtype=np.int64, count=len(page))
            last = page[-1][0]

    def size(self) -> int:
        size_bytes = self.db.execute("SELECT sum(pgsize) FROM dbstat WHERE name = 'followers'").fetchone()[0]
        return int(size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerSortedSet:
    """Pages by rank; each page is looked up in the sets of VIPs and active users."""

    redis: RedisClient

    @classmethod
    def filled(cls, redis: RedisClient, world: World) -> "FollowerSortedSet":
        for m in _numbers(world):
            redis.zadd("followers", {str(follower): follower for follower in m[world.follows(0, m)].tolist()})
            for name, of in _sets(world, m).items():
                redis.sadd(name, *m[of].tolist())
        return cls(redis=redis)

    def tiers(self) -> Tiers:
        counts, first = Counter[Tier](), 0
        while page := self.redis.zrange("followers", first, first + FOLLOWERS_PER_PAGE - 1):
            memberships = [self.redis.smismember(name, page) for name in _SETS]
            lists: dict[Tier, list[bytes]] = {tier: [] for tier in Tier}
            for follower, *flags in zip(page, *memberships, strict=True):
                lists[_tier_of(*flags)].append(follower)
            counts.update({tier: len(followers) for tier, followers in lists.items()})
            first += FOLLOWERS_PER_PAGE
        return counts

    def size(self) -> int:
        return int(self.redis.memory_usage("followers", samples=0) or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilters:
    """A filter for each set of users, with one false positive in a hundred. The followers come from the table."""

    table: FollowerTable
    filters: "Sequence[BloomFilter]"

    @classmethod
    def filled(cls, table: FollowerTable, world: World) -> "BloomFilters":
        everybody = np.concatenate(list(_numbers(world)))
        return cls(table=table, filters=[BloomFilter.of(everybody[of]) for of in _sets(world, everybody).values()])

    def tiers(self) -> Tiers:
        counts = Counter[Tier]()
        for page in self.table.pages():
            vip, day, week, month = (filter_.may_have(page) for filter_ in self.filters)
            p0 = vip & week
            p1 = day & ~p0
            p2 = month & ~p0 & ~p1
            for tier, members in ((Tier.P0, p0), (Tier.P1, p1), (Tier.P2, p2), (Tier.DORMANT, ~(p0 | p1 | p2))):
                counts[tier] += len(page[members])
        return counts

    def size(self) -> int:
        return self.table.size()


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilter:
    bits: npt.NDArray[np.uint8]

    HASHES = 7
    BITS_EACH = 9.6
    """Seven hashes give one false positive in a hundred."""

    @classmethod
    def of(cls, members: Members) -> "BloomFilter":
        bits = np.zeros(max(8, int(len(members) * cls.BITS_EACH)), dtype=np.uint8)
        for places in cls._places(members, len(bits)):
            bits[places] = 1
        return cls(bits=bits)

    def may_have(self, members: Members) -> npt.NDArray[np.bool_]:
        hits = np.ones(len(members), dtype=np.bool_)
        for places in self._places(members, len(self.bits)):
            hits &= self.bits[places].view(np.bool_)
        return hits

    @classmethod
    def _places(cls, members: Members, size: int) -> Iterator[npt.NDArray[np.uint64]]:
        first_hash, second_hash = (
            _mixed(members, 0x9E3779B97F4A7C15),
            _mixed(members, 0xC2B2AE3D27D4EB4F) | np.uint64(1),
        )
        for number in range(cls.HASHES):
            yield (first_hash + np.uint64(number) * second_hash) % np.uint64(size)


_SETS = ("vip", "active24h", "active7d", "active30d")


def _sets(world: World, m: Members) -> Mapping[str, npt.NDArray[np.bool_]]:
    idle = world.idleness(m)
    return dict(zip(_SETS, (world.vip(m), idle < ACTIVE_24H, idle < ACTIVE_7D, idle < ACTIVE_30D), strict=True))


def _tier(vip: int, idle: int) -> Tier:
    return _tier_of(vip, idle < ACTIVE_24H, idle < ACTIVE_7D, idle < ACTIVE_30D)


def _tier_of(vip: int, day: int, week: int, month: int) -> Tier:
    if vip and week:
        return Tier.P0
    if day:
        return Tier.P1
    return Tier.P2 if month else Tier.DORMANT


def _numbers(world: World) -> Iterator[Members]:
    """Yield all member numbers, a page at a time."""
    for first in range(0, world.universe, FOLLOWERS_PER_PAGE):
        yield np.arange(first, min(first + FOLLOWERS_PER_PAGE, world.universe), dtype=np.int64)


def _mixed(members: Members, by: int) -> npt.NDArray[np.uint64]:
    mixed = (members.astype(np.uint64) + np.uint64(1)) * np.uint64(by)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return mixed ^ (mixed >> np.uint64(32))
