"""Loads a world through the ports: as a platform with numeric ids would, by ranges and bitmaps and no person named."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from notifier.domain.audience.activity import FOREVER, OF_THE_ACTIVE
from notifier.domain.audience.bitmap import BLOCK_BYTES, SHARD_BLOCKS, Bits, count
from notifier.domain.audience.follows import BlockFollows
from notifier.domain.audience.id_ranges import IdRange
from notifier.domain.audience.tiers import SetKind
from notifier.domain.delivery.plan import SetHead
from notifier.domain.ids import Member
from notifier.domain.users.subject_preferences import BlockMute
from notifier.ports.all_ports import Ports
from notifier.ports.audience import Follows, MemberSets, ShardBlob, Stay, Stays
from notifier.ports.clock import Clock
from notifier.ports.devices import Devices
from notifier.ports.directory import Account, Directory
from notifier.ports.user_preferences import Wants
from notifier.testing.crowd import Crowd
from notifier.testing.devices import devices
from notifier.testing.world import SINCE, World

EVERYBODY = (SetKind.ACTIVE_24H, SetKind.ACTIVE_30D, SetKind.ACTIVE_7D, SetKind.PUSH, SetKind.VIP)
"""In the order in which the store keeps them."""

STANDS_STILL = {"NOTIFIER_ROLL_UP_EVERY": "0"}
"""The setting with which the formulas stay true though people open their tabs: else they would become active by it."""

ONE_API_PROCESS = {"NOTIFIER_API_WORKERS": "1"}
"""Setting of the benchmarks: their figures do not depend on the number of cores."""

Advance = Callable[[int], None]
"""Told of every few shards that are done, and of every celebrity's head. Whoever wants the load cut off raises here."""

DEVICES_AT_ONCE = 1_024
"""As many as a store settles in one go; by no step of their own, as even 200 million people have but 15,000."""


def steps(world: World) -> int:
    """What a load advances by in all."""
    return world.celebrities + world.shards * (1 + 2 * world.celebrities)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    directory: Directory
    sets: MemberSets
    follows: Follows
    stays: Stays
    wants: Wants
    devices: Devices
    clock: Clock

    @classmethod
    def into(cls, ports: Ports) -> "Load":
        return cls(
            directory=ports.directory,
            sets=ports.sets,
            follows=ports.follows,
            stays=ports.stays,
            wants=ports.wants,
            devices=ports.devices,
            clock=ports.clock,
        )

    def __call__(
        self, world: World, advance: Advance = lambda _: None, first_stands: Callable[[], None] = lambda: None
    ) -> None:
        """The world is loaded when it returns; loading it again changes nothing, but that devices are registered anew
        with every full hour: what isn't registered again ends one day.

        `first_stands` is called once the people and the first celebrity are there, before the others are loaded.
        """
        crowd = Crowd(world)
        # The first one's head before everything, by which a store that somebody began to load is known.
        self._put_heads(crowd, [0], advance)
        self.stays.put(_stays(crowd))
        self.sets.put(_everybody(crowd, advance))
        self._register(world, advance)
        self._load_celebrities(crowd, [0], advance)
        self.directory.enrol_range(IdRange(prefix="u", first=0, count=world.universe, member=Member(0)))
        first_stands()
        if others := range(1, world.celebrities):
            self._put_heads(crowd, others, advance)
            self._load_celebrities(crowd, others, advance)

    def _put_heads(self, crowd: Crowd, stars: Sequence[int], advance: Advance) -> None:
        for star in stars:
            self.sets.put_heads({crowd.world.subject(star): head(crowd, star)})
            advance(1)

    def _load_celebrities(self, crowd: Crowd, stars: Sequence[int], advance: Advance) -> None:
        """Behind their heads, so that no plan overlooks a shard; their names last, so that nobody is mentioned before
        all of it stands."""
        world = crowd.world
        self.sets.put(of_celebrities(crowd, stars, advance))
        self.wants.write_mutes(_mutes(crowd, stars))
        self.follows.write_blocks(_follows(crowd, stars, advance))
        self.directory.enrol([Account(user=world.names[star], member=world.star_member(star)) for star in stars])

    def _register(self, world: World, advance: Advance) -> None:
        hour = self.clock.now().replace(minute=0, second=0, microsecond=0)
        found = devices(world, hour)
        while some := list(islice(found, DEVICES_AT_ONCE)):
            self.devices.write(some)
            advance(0)


def head(crowd: Crowd, star: int) -> SetHead:
    counts = [count(crowd.followers(star, shard)) for shard in range(crowd.world.shards)]
    return SetHead(total=sum(counts), counts=counts)


def bitmaps(crowd: Crowd) -> Iterator[ShardBlob]:
    """All that fan-out reads of people."""
    yield from _everybody(crowd, lambda _: None)
    yield from of_celebrities(crowd, range(crowd.world.celebrities), lambda _: None)


def _everybody(crowd: Crowd, advance: Advance) -> Iterator[ShardBlob]:
    for shard in range(crowd.world.shards):
        for kind in EVERYBODY:
            yield ShardBlob(kind=kind, owner=None, shard=shard, bits=crowd.everybody(kind, shard))
        advance(1)


def _stays(crowd: Crowd) -> Iterator[Stay]:
    """For ever: the formulas know no time, and are true of a roll-up too."""
    for kind in OF_THE_ACTIVE:
        for shard in range(crowd.world.shards):
            yield Stay(kind=kind, until=FOREVER, shard=shard, bits=crowd.everybody(kind, shard))


def of_celebrities(crowd: Crowd, stars: Sequence[int], advance: Advance) -> Iterator[ShardBlob]:
    for star, shard in _places(crowd.world, stars):
        owner = crowd.world.subject(star)
        if (followers := crowd.followers(star, shard)).any():
            yield ShardBlob(kind=SetKind.FOLLOWERS, owner=owner, shard=shard, bits=followers)
        if (muting := crowd.muting(star, shard)).any():
            yield ShardBlob(kind=SetKind.MUTED, owner=owner, shard=shard, bits=muting)
        advance(1)


def _follows(crowd: Crowd, stars: Sequence[int], advance: Advance) -> Iterator[BlockFollows]:
    for shard in range(crowd.world.shards):
        for star in stars:
            subject = crowd.world.subject(star)
            for block, members in _blocks(shard, crowd.followers(star, shard)):
                yield BlockFollows(subject=subject, block=block, visible_from=SINCE, members=members)
            advance(1)


def _mutes(crowd: Crowd, stars: Sequence[int]) -> Iterator[BlockMute]:
    """The predicate says the same as the sets."""
    for shard in range(crowd.world.shards):
        for star in stars:
            for block, members in _blocks(shard, crowd.muting(star, shard)):
                yield BlockMute(subject=crowd.world.subject(star), block=block, members=members)


def _blocks(shard: int, some: Bits) -> Iterator[tuple[int, bytes]]:
    """Those in which it is anybody, and the bitmap of each."""
    bitmaps = some.tobytes()
    for block in np.flatnonzero(np.any(some.reshape(SHARD_BLOCKS, -1), axis=1)).tolist():
        yield shard * SHARD_BLOCKS + block, bitmaps[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]


def _places(world: World, stars: Sequence[int]) -> Iterator[tuple[int, int]]:
    """By name, as the store sorts them."""
    for star in sorted(stars, key=world.names.__getitem__):
        for shard in range(world.shards):
            yield star, shard
