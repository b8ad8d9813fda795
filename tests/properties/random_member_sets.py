"""Random bitmaps of every density, and random member sets in all relations to each other."""

from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_flags, from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind, ShardSets

DENSITIES = (0.0, 1e-5, 1e-3, 0.02, 0.0312, 0.0313, 0.0625, 0.07, 0.5, 0.99, 1.0)
"""Around the thresholds between the stored forms of a bitmap, and of the members in a row."""

PLACES = st.sets(st.integers(0, SHARD_MEMBERS - 1), max_size=40)


def _random_bitmap(seed: int, density: float, fill: set[int]) -> Bits:
    flags = np.random.default_rng(seed).random(SHARD_MEMBERS) < density
    flags[list(fill)] = True
    return from_flags(flags)


BITMAPS: st.SearchStrategy[Bits] = st.builds(
    _random_bitmap, st.integers(0, 2**32 - 1), st.sampled_from(DENSITIES), PLACES
) | PLACES.map(from_offsets)

MEMBER_COUNT = 24
"""Members that may be in any of the sets: enough for every relevant combination, few enough to shrink."""

MemberSets = Mapping[SetKind, frozenset[int]]

MEMBERS = st.frozensets(st.integers(0, MEMBER_COUNT - 1))
MEMBER_SETS: st.SearchStrategy[MemberSets] = st.dictionaries(st.sampled_from(SetKind), MEMBERS)


def shard_sets(member_sets: MemberSets, author: frozenset[int] | None = None) -> ShardSets:
    return ShardSets(
        sets={kind: from_offsets(places) for kind, places in member_sets.items()},
        mentioner_followers=None if author is None else from_offsets(author),
    )
