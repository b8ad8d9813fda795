"""The benchmark's users and subjects: exact numbers of follows, popularity by Zipf's law."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from notifier.devkit.fixture.world import SINCE
from notifier.domain.audience.account_flags import Flag, FlagRow
from notifier.domain.audience.bitmap import BLOCK_BYTES, BLOCK_MEMBERS, SHARD_MEMBERS, from_flags
from notifier.domain.audience.follows import BlockFollows, Follow
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.all_ports import Ports
from notifier.ports.audience import ShardBitmap
from notifier.ports.user_directory_and_account_flags import DirectoryEntry

SUBJECTS = 3_000
"""Number of subjects. The first is the award show, which every user follows except those of `gala`."""
GALA = UserId("gala")
"""An account with one burst, for a thousand users who follow nothing else."""
ROWS_PER_WRITE = 256
RETRY_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds between tries: a store that has just started is slow. Loaded data may be written twice."""
ACTIVE = (SetKind.ACTIVE_24H, SetKind.ACTIVE_7D, SetKind.ACTIVE_30D)

T = TypeVar("T")
Picks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Users with the same number of followed subjects. Each group begins at a block of members."""

    name: str
    users: int
    follows: int
    vip: bool = False
    shared: bool = False
    """Whether the users of a block follow the same subjects, stored as one row per block, as imports do."""
    only: UserId | None = None
    """The one account that all of them follow, and no other group does."""


GROUPS = (
    Group(name="warm", users=2_000, follows=30),
    Group(name="vip", users=2_000, follows=30, vip=True),
    Group(name="one", users=500, follows=1),
    Group(name="many", users=60, follows=300),
    Group(name="most", users=10, follows=3_000),
    Group(name="gala", users=1_000, follows=1, only=GALA),
    Group(name="crowd", users=60_000, follows=30, shared=True),
)


@dataclass(frozen=True, kw_only=True)
class Population:
    groups: Sequence[Group] = GROUPS
    subjects: int = SUBJECTS
    seed: int = 1

    def __post_init__(self) -> None:
        """Raises ValueError if the users don't fit into one shard."""
        if self.end > SHARD_MEMBERS:
            raise ValueError(f"{self.end:,} members do not fit into a shard of {SHARD_MEMBERS:,}")

    @cached_property
    def first(self) -> Mapping[str, int]:
        """Member number of the first user of each group."""
        first_members, at = dict[str, int](), 0
        for group in self.groups:
            first_members[group.name] = at
            at += -(-group.users // BLOCK_MEMBERS) * BLOCK_MEMBERS
        return first_members

    @property
    def end(self) -> int:
        last = self.groups[-1]
        return self.first[last.name] + last.users

    @cached_property
    def names(self) -> tuple[UserId, ...]:
        """Followed accounts, the most popular first, without `gala`."""
        return tuple(UserId(f"star{number}") for number in range(self.subjects))

    @property
    def accounts(self) -> Sequence[UserId]:
        """All followed accounts."""
        return [*self.names, GALA]

    @property
    def award(self) -> UserId:
        return self.names[0]

    def group(self, name: str) -> Group:
        return next(group for group in self.groups if group.name == name)

    def users(self, name: str) -> list[UserId]:
        group = self.group(name)
        return [UserId(f"u{self.first[name] + number}") for number in range(group.users)]

    def picks(self, group: Group) -> Picks:
        """Return a row of subject numbers for each user, or for each block of a `shared` group."""
        lines = -(-group.users // BLOCK_MEMBERS) if group.shared else group.users
        random_source = np.random.default_rng([self.seed, self.first[group.name]])
        return zipf_picks(random_source, lines=lines, subjects=self.subjects, picked=group.follows)


def zipf(subjects: int) -> npt.NDArray[np.float64]:
    """Return the probabilities of subjects by rank: the first is twice as popular as the second."""
    weights: npt.NDArray[np.float64] = 1 / np.arange(1, subjects + 1, dtype=np.float64)
    return weights / float(weights.sum())


def zipf_picks(random_source: np.random.Generator, *, lines: int, subjects: int, picked: int) -> Picks:
    """Draw distinct subjects for each row: always number 0, the others by their popularity.

    The largest of `log(weight) + Gumbel noise` are a weighted sample without replacement.
    """
    picks = np.zeros((lines, picked), dtype=np.int64)
    if picked > 1:
        weights = np.log(zipf(subjects)[1:])
        for line in picks:
            scores = weights + random_source.gumbel(size=subjects - 1)
            line[1:] = np.argpartition(-scores, picked - 2)[: picked - 1] + 1
    return picks


def patiently(write: Callable[[], T]) -> T:
    """Retry a write while the store is unavailable. Raises StoreUnavailable after the last try."""
    for pause in RETRY_PAUSES:
        try:
            return write()
        except StoreUnavailable:
            time.sleep(pause)
    return write()


@dataclass(frozen=True, kw_only=True)
class Loader:
    """Writes a population through the store's ports, as events and imports would."""

    population: Population
    ports: Ports

    def load(self) -> None:
        """Load everything. Names come last, so that no account is mentioned before its followers exist."""
        people = self.population
        followers: dict[UserId, npt.NDArray[np.bool_]] = {}
        for group in people.groups:
            self._follow(group, followers)
        heads = {mention_of(name): _head(flags) for name, flags in followers.items()}
        patiently(lambda: self.ports.sets.put_follower_counts(heads))
        patiently(lambda: self.ports.sets.put(self._bitmaps(followers)))
        patiently(self._flag_vips)
        accounts = [
            DirectoryEntry(user=name, member=Member(SHARD_MEMBERS + number))
            for number, name in enumerate(people.accounts)
        ]
        self.ports.directory.enrol(accounts)
        self.ports.directory.enrol_range(IdRange(prefix="u", first=0, count=people.end, first_member=Member(0)))

    def _follow(self, group: Group, followers: dict[UserId, npt.NDArray[np.bool_]]) -> None:
        first, picks = self.population.first[group.name], self.population.picks(group)
        for line, subjects in enumerate(picks):
            members = slice(first + line, first + line + 1)
            if group.shared:
                members = slice(first + line * BLOCK_MEMBERS, first + min((line + 1) * BLOCK_MEMBERS, group.users))
            for name in self._names(group, subjects):
                flags = followers.setdefault(name, np.zeros(SHARD_MEMBERS, dtype=np.bool_))
                flags[members] = True
        if group.shared:
            patiently(lambda: self.ports.follows.write_blocks(self._blocks(group, picks)))
        else:
            self._write(group, picks)

    def _names(self, group: Group, subjects: Picks) -> list[UserId]:
        return [group.only] if group.only else [self.population.names[number] for number in subjects.tolist()]

    def _flag_vips(self) -> None:
        people = self.population
        for group in people.groups:
            if group.vip:
                first = people.first[group.name]
                members = range(first, first + group.users)
                self.ports.account_flags.write(
                    FlagRow(flag=Flag.VIP, member=Member(n), is_set=True, sequence=0) for n in members
                )

    def _write(self, group: Group, picks: Picks) -> None:
        first, batch = self.population.first[group.name], list[Follow]()
        for line, subjects in enumerate(picks):
            batch += [
                Follow(subject=mention_of(name), member=Member(first + line), visible_from=SINCE, sequence=1)
                for name in self._names(group, subjects)
            ]
            if len(batch) >= ROWS_PER_WRITE or line == len(picks) - 1:
                patiently(partial(self.ports.follows.write, batch))
                batch = []

    def _blocks(self, group: Group, picks: Picks) -> Iterator[BlockFollows]:
        first = self.population.first[group.name] // BLOCK_MEMBERS
        for line, subjects in enumerate(picks):
            left = min(BLOCK_MEMBERS, group.users - line * BLOCK_MEMBERS)
            members = ((1 << left) - 1).to_bytes(BLOCK_BYTES, "little")
            for name in self._names(group, subjects):
                yield BlockFollows(subject=mention_of(name), block=first + line, visible_from=SINCE, members=members)

    def _bitmaps(self, followers: Mapping[UserId, npt.NDArray[np.bool_]]) -> Iterator[ShardBitmap]:
        everybody = np.zeros(SHARD_MEMBERS, dtype=np.bool_)
        vips = np.zeros(SHARD_MEMBERS, dtype=np.bool_)
        for group in self.population.groups:
            members = slice(self.population.first[group.name], self.population.first[group.name] + group.users)
            everybody[members] = True
            vips[members] = group.vip
        for kind in sorted((*ACTIVE, SetKind.VIP)):
            flags = vips if kind is SetKind.VIP else everybody
            yield ShardBitmap(kind=kind, owner=None, shard=0, bits=from_flags(flags))
        for name in sorted(followers):
            yield ShardBitmap(kind=SetKind.FOLLOWERS, owner=mention_of(name), shard=0, bits=from_flags(followers[name]))


def mention_of(name: UserId) -> Subject:
    """Return the subject that followers of an account follow."""
    return Subject(Kind.MENTION, name)


def _head(flags: npt.NDArray[np.bool_]) -> FollowerCounts:
    count = int(flags.sum())
    return FollowerCounts(total=count, by_shard=[count])
