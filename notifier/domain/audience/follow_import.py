"""Edges of an import: who follows whom as one number each, sorted, and cut into what rows of follows are made of."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import numpy.typing as npt

from notifier.domain.audience.bitmap import BLOCK_BYTES, BLOCK_MEMBERS, SHARD_BLOCKS, shard_of
from notifier.domain.audience.id_ranges import IdRange
from notifier.domain.ids import Member

Keys = npt.NDArray[np.uint64]
"""The followed's number, and the follower's in the lower half: sorted, the followers of one stand together."""

Ids = npt.NDArray[np.int64]
"""Outside ids that are whole numbers."""

HALF = 32
MOST_MEMBERS = 1 << HALF
"""That a key has room for."""
EVERYBODY = Member(MOST_MEMBERS - 1)
"""Instead of an account: nobody has this number before all others are given."""

WORTH_A_BLOCK = 8
"""Followers in a block that share a row; below that each has a row of its own, which is smaller."""
BLOCKS_AT_ONCE = 1 << 14
"""16 MB of flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowds:
    """The followers of one chunk of keys."""

    shared: Sequence[tuple[Member, int, bytes]]
    """The followed, the block and its bitmap."""
    own: Sequence[tuple[Member, Member]]
    """The followed and the follower."""

    def shards(self) -> Mapping[Member, set[int]]:
        """Of each followed, where somebody of the chunk is."""
        found = defaultdict[Member, set[int]](set)
        for followed, block, _ in self.shared:
            found[followed].add(block // SHARD_BLOCKS)
        for followed, follower in self.own:
            found[followed].add(shard_of(follower))
        return found


def keyed(followed: Iterable[Member], followers: Iterable[Member]) -> Keys:
    """Sorted, each once. Nobody follows himself."""
    return paired(*(np.fromiter(some, dtype=np.uint64) for some in (followed, followers)))


def paired(followed: Keys, followers: Keys) -> Keys:
    """The same of members that are in arrays."""
    others = followed != followers
    keys = followed[others] << np.uint64(HALF) | followers[others]
    keys.sort()
    return _each_once(keys)


@dataclass(slots=True)
class Located:
    """Members of ids, those that aren't known yet among them."""

    ids: Ids
    members: Keys = field(init=False)
    _missing: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.members = np.zeros(len(self.ids), dtype=np.uint64)
        self._missing = np.ones(len(self.ids), dtype=np.bool_)

    def within(self, ids: IdRange) -> None:
        """Those of the range are known now."""
        inside = self._missing & (self.ids >= ids.first) & (self.ids <= ids.last)
        self.members[inside] = (self.ids[inside] - ids.first + ids.member).astype(np.uint64)
        self._missing &= ~inside

    def missing(self) -> Sequence[int]:
        """Each once, rising."""
        found: list[int] = np.unique(self.ids[self._missing]).tolist()
        return found

    def named(self, members: Mapping[int, Member]) -> None:
        """All of the missing."""
        self.members[self._missing] = [members[id] for id in self.ids[self._missing].tolist()]
        self._missing[:] = False


def touched(places: Iterable[tuple[Member, int]]) -> Keys:
    """Shards of an account's bitmaps, or of EVERYBODY's: sorted, each once."""
    keys = np.fromiter((of << HALF | shard for of, shard in {*places}), dtype=np.uint64)
    keys.sort()
    return keys


def by_account(keys: Keys) -> Iterator[Mapping[Member, Sequence[int]]]:
    """The way back: of each account its shards, a bounded number at a time."""
    for first in range(0, len(keys), BLOCKS_AT_ONCE):
        some = groupby(keys[first : first + BLOCKS_AT_ONCE].tolist(), lambda key: key >> HALF)
        yield {Member(of): [key & (MOST_MEMBERS - 1) for key in places] for of, places in some}


def joined(runs: Sequence[Keys]) -> Keys:
    """Of several that are sorted, one."""
    keys = np.concatenate([np.empty(0, dtype=np.uint64), *runs])
    keys.sort(kind="stable")  # the kind that sees sorted runs and merges them
    return _each_once(keys)


def _each_once(keys: Keys) -> Keys:
    """Of sorted ones; `np.unique` would hash them all, which takes four times as long as sorting."""
    return keys[np.flatnonzero(np.diff(keys, prepend=~keys[:1]))]


def cut(keys: Keys) -> Iterator[Crowds]:
    """Of sorted keys in which no block of a followed is cut off."""
    block_bits = np.uint64(BLOCK_MEMBERS.bit_length() - 1)
    starts = np.flatnonzero(np.diff(keys >> block_bits, prepend=~keys[:1] >> block_bits))
    for first in range(0, len(starts), BLOCKS_AT_ONCE):
        some = starts[first : first + BLOCKS_AT_ONCE]
        end = int(starts[first + BLOCKS_AT_ONCE]) if first + BLOCKS_AT_ONCE < len(starts) else len(keys)
        yield _crowds(keys[int(some[0]) : end], some - some[0])


def _crowds(keys: Keys, starts: npt.NDArray[np.int64]) -> Crowds:
    counts = np.diff(starts, append=len(keys))
    place = np.repeat(np.arange(len(starts)), counts)
    large = counts >= WORTH_A_BLOCK
    flags = np.zeros((int(large.sum()), BLOCK_MEMBERS), dtype=np.bool_)
    rank = np.cumsum(large) - 1
    shared = large[place]
    flags[rank[place[shared]], (keys[shared] % np.uint64(BLOCK_MEMBERS)).astype(np.int64)] = True
    bitmaps = np.packbits(flags, axis=1, bitorder="little").tobytes()
    firsts = keys[starts[large]]
    blocks = ((firsts & np.uint64(MOST_MEMBERS - 1)) // np.uint64(BLOCK_MEMBERS)).tolist()
    whom = (firsts >> np.uint64(HALF)).tolist()
    rest = keys[~shared]
    return Crowds(
        shared=[
            (Member(followed), block, bitmaps[n * BLOCK_BYTES : (n + 1) * BLOCK_BYTES])
            for n, (followed, block) in enumerate(zip(whom, blocks, strict=True))
        ],
        own=[
            (Member(followed), Member(follower))
            for followed, follower in zip(
                (rest >> np.uint64(HALF)).tolist(), (rest & np.uint64(MOST_MEMBERS - 1)).tolist(), strict=True
            )
        ],
    )


def boundary(heads: Sequence[Keys]) -> int:
    """Up to where, exclusive, sorted runs may be joined of which these are the next keys, and more follow each of them.

    It is where a block begins; each head has more keys than a block has members, so that something is always below it.
    """
    whole = BLOCK_MEMBERS - 1
    return min((int(head[-1]) & ~whole for head in heads), default=1 << 2 * HALF)
