"""Packs imported follow edges into sorted keys and cuts them into follow rows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import numpy.typing as npt

from notifier.domain.audience.bitmap import BLOCK_BYTES, BLOCK_MEMBERS, SHARD_BLOCKS, shard_of
from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.ids import Member

ImportKeys = npt.NDArray[np.uint64]
"""Keys made of two numbers. The upper half is an account, by its member number, so sorting groups keys by account.

The lower half is a follower in edge keys, and a shard in rebuild keys.
"""

MemberArray = npt.NDArray[np.uint64]

NumericIds = npt.NDArray[np.int64]
"""External ids that are integers."""

HALF_KEY_BITS = 32
MAX_MEMBERS = 1 << HALF_KEY_BITS
"""Number of different members that half a key can hold."""
ACCOUNT_WIDE = Member(MAX_MEMBERS - 1)
"""Stands for the account-wide bitmaps (VIPs, account preferences) in the upper half of a rebuild key.

It is the last member number, so no user has it in practice.
"""

MIN_BLOCK_FOLLOWERS = 8
"""Minimum followers in a block for a shared block row. Below that, one row per follower is smaller."""
BLOCKS_PER_CHUNK = 1 << 14
"""Blocks of followers that are cut at once: 16 MB of flags."""
REBUILD_KEYS_PER_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRowChunk:
    """Follow rows made from one chunk of keys."""

    block_rows: Sequence[tuple[Member, int, bytes]]
    """Block rows: followed member, block, bitmap of the followers."""
    member_rows: Sequence[tuple[Member, Member]]
    """Member rows: followed member, follower."""

    def shards_by_followed(self) -> Mapping[Member, set[int]]:
        """Return the shards that contain followers of this chunk, by followed member."""
        by_followed = defaultdict[Member, set[int]](set)
        for followed, block, _ in self.block_rows:
            by_followed[followed].add(block // SHARD_BLOCKS)
        for followed, follower in self.member_rows:
            by_followed[followed].add(shard_of(follower))
        return by_followed


def edge_keys(followed: Iterable[Member], followers: Iterable[Member]) -> ImportKeys:
    """Return sorted, distinct edge keys. Self-follows are dropped."""
    return edge_keys_of_arrays(*(np.fromiter(column, dtype=np.uint64) for column in (followed, followers)))


def edge_keys_of_arrays(followed: MemberArray, followers: MemberArray) -> ImportKeys:
    """Like `edge_keys`, for members in arrays."""
    is_no_self_follow = followed != followers
    keys = followed[is_no_self_follow] << np.uint64(HALF_KEY_BITS) | followers[is_no_self_follow]
    keys.sort()
    return _without_duplicates(keys)


@dataclass(slots=True)
class ResolvedIds:
    """Members of a batch of ids, resolved step by step."""

    ids: NumericIds
    members: MemberArray = field(init=False)
    _is_unresolved: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.members = np.zeros(len(self.ids), dtype=np.uint64)
        self._is_unresolved = np.ones(len(self.ids), dtype=np.bool_)

    def resolve_range(self, id_range: IdRange) -> None:
        in_range = self._is_unresolved & (self.ids >= id_range.first) & (self.ids <= id_range.last)
        self.members[in_range] = (self.ids[in_range] - id_range.first + id_range.first_member).astype(np.uint64)
        self._is_unresolved &= ~in_range

    def unresolved(self) -> Sequence[int]:
        """Return the unresolved ids, distinct and ascending."""
        ids: list[int] = np.unique(self.ids[self._is_unresolved]).tolist()
        return ids

    def resolve_remaining(self, members: Mapping[int, Member]) -> None:
        """Resolve the remaining ids; `members` must contain all of them."""
        self.members[self._is_unresolved] = [members[id] for id in self.ids[self._is_unresolved].tolist()]
        self._is_unresolved[:] = False


def rebuild_keys(pairs: Iterable[tuple[Member, int]]) -> ImportKeys:
    """Pack pairs of account and shard to rebuild into sorted, distinct keys."""
    keys = np.fromiter((account << HALF_KEY_BITS | shard for account, shard in {*pairs}), dtype=np.uint64)
    keys.sort()
    return keys


def shards_by_account(keys: ImportKeys) -> Iterator[Mapping[Member, Sequence[int]]]:
    """Unpack the keys of `rebuild_keys`, chunk by chunk, into shards by account."""
    for first in range(0, len(keys), REBUILD_KEYS_PER_CHUNK):
        groups = groupby(keys[first : first + REBUILD_KEYS_PER_CHUNK].tolist(), lambda key: key >> HALF_KEY_BITS)
        yield {Member(account): [key & (MAX_MEMBERS - 1) for key in account_keys] for account, account_keys in groups}


def merge_runs(runs: Sequence[ImportKeys]) -> ImportKeys:
    """Merge sorted runs into one, without duplicates."""
    keys = np.concatenate([np.empty(0, dtype=np.uint64), *runs])
    keys.sort(kind="stable")  # detects sorted runs and merges them
    return _without_duplicates(keys)


def _without_duplicates(keys: ImportKeys) -> ImportKeys:
    """Remove duplicates from sorted keys.

    `np.unique` would hash all keys, which takes four times as long as sorting them.
    """
    return keys[np.flatnonzero(np.diff(keys, prepend=~keys[:1]))]


def cut_follow_rows(keys: ImportKeys) -> Iterator[FollowRowChunk]:
    """Yield the follow rows of sorted keys.

    If the keys contain a follower of an account, they must contain all followers of that account in the same block.
    Otherwise a block row would lack followers.
    """
    block_bits = np.uint64(BLOCK_MEMBERS.bit_length() - 1)
    starts = np.flatnonzero(np.diff(keys >> block_bits, prepend=~keys[:1] >> block_bits))
    for first in range(0, len(starts), BLOCKS_PER_CHUNK):
        chunk = starts[first : first + BLOCKS_PER_CHUNK]
        end = int(starts[first + BLOCKS_PER_CHUNK]) if first + BLOCKS_PER_CHUNK < len(starts) else len(keys)
        yield _follow_row_chunk(keys[int(chunk[0]) : end], chunk - chunk[0])


def _follow_row_chunk(keys: ImportKeys, starts: npt.NDArray[np.int64]) -> FollowRowChunk:
    """Make the rows of the keys. `starts` has the index of the first key of each group.

    The keys of a group have the same followed member, and followers of the same block.
    """
    counts = np.diff(starts, append=len(keys))
    group_of_key = np.repeat(np.arange(len(starts)), counts)
    has_block_row = counts >= MIN_BLOCK_FOLLOWERS
    flags = np.zeros((int(has_block_row.sum()), BLOCK_MEMBERS), dtype=np.bool_)
    block_row_of_group = np.cumsum(has_block_row) - 1
    in_block_row = has_block_row[group_of_key]
    slots = (keys[in_block_row] % np.uint64(BLOCK_MEMBERS)).astype(np.int64)
    flags[block_row_of_group[group_of_key[in_block_row]], slots] = True
    bitmaps = np.packbits(flags, axis=1, bitorder="little").tobytes()
    first_keys = keys[starts[has_block_row]]
    blocks = ((first_keys & np.uint64(MAX_MEMBERS - 1)) // np.uint64(BLOCK_MEMBERS)).tolist()
    followed_members = (first_keys >> np.uint64(HALF_KEY_BITS)).tolist()
    single_keys = keys[~in_block_row]
    return FollowRowChunk(
        block_rows=[
            (Member(followed), block, bitmaps[n * BLOCK_BYTES : (n + 1) * BLOCK_BYTES])
            for n, (followed, block) in enumerate(zip(followed_members, blocks, strict=True))
        ],
        member_rows=[
            (Member(followed), Member(follower))
            for followed, follower in zip(
                (single_keys >> np.uint64(HALF_KEY_BITS)).tolist(),
                (single_keys & np.uint64(MAX_MEMBERS - 1)).tolist(),
                strict=True,
            )
        ],
    )


def merge_limit(loaded_keys: Sequence[ImportKeys]) -> int:
    """Return the start of a block, as a key, below which all keys of all runs are loaded.

    `loaded_keys` has the loaded keys of each run that is not loaded completely. Load more keys of each run than a block
    has members: then at least one key is below the limit.
    """
    slot_mask = BLOCK_MEMBERS - 1
    return min((int(keys[-1]) & ~slot_mask for keys in loaded_keys), default=1 << 2 * HALF_KEY_BITS)
