"""Inbox rows: every member reads exactly the bits that were written."""

from asyncio import run
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from time import monotonic, sleep

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, contains, from_flags, from_offsets
from notifier.domain.audience.inbox_rows import (
    INBOX_WINDOW,
    RANGE_BYTES,
    RANGE_MEMBERS,
    InboxRow,
    InboxRows,
    cut_inbox_rows,
)
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.ids import BurstKey, Member
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import NOVA
from tests.support.fakes.clock_and_nonces import START

KEY = BurstKey(NOVA, 1)
DENSE = from_offsets(range(0, RANGE_MEMBERS, 2))
"""Every second member of the first range; stored as a bitmap."""
NEXT = RANGE_MEMBERS + 5
SPARSE = from_offsets([3, NEXT])
"""One member in each of two ranges; stored as lists."""


def rows(
    bits: Bits, *, burst: BurstKey = KEY, opened_at: datetime = START, tier: Tier = Tier.P1, shard: int = 0
) -> InboxRows:
    return cut_inbox_rows(bits, burst=burst, opened_at=opened_at, tier=tier, shard=shard)


def read(store: Store, member: int, limit: int = 10) -> Sequence[InboxRow]:
    return run(store.timeline.rows(Member(member), [NOVA], None, limit))


def keys(store: Store, member: int) -> list[BurstKey]:
    return [row.burst for row in read(store, member)]


def test_bitmap_reaches_exactly_its_members(store: Store) -> None:
    store.inbox.write([rows(DENSE)])
    with reopened(store) as other_process:
        inbox_rows = read(other_process, 2)
        assert keys(other_process, 3) == keys(other_process, RANGE_MEMBERS) == []
    whole_range = DENSE.tobytes()[:RANGE_BYTES]
    assert inbox_rows == [InboxRow(burst=KEY, opened_at=START, tier=Tier.P1, members=whole_range)]


def test_list_reaches_exactly_its_members(store: Store) -> None:
    store.inbox.write([rows(SPARSE)])
    with reopened(store) as other_process:
        assert read(other_process, 3) == [InboxRow(burst=KEY, opened_at=START, tier=Tier.P1, members=b"\x03\x00")]
        assert keys(other_process, NEXT) == [KEY]
        assert keys(other_process, 4) == keys(other_process, NEXT - 1) == keys(other_process, RANGE_MEMBERS + 3) == []


def test_long_write_calls_back_and_can_be_aborted(store: Store) -> None:
    """The callback renews the claim while the store is slow; the claim may be lost by then."""
    slices = [rows(DENSE | SPARSE, shard=shard) for shard in range(40)]
    calls: list[int] = []

    def lost() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            raise LookupError("the claim")

    with pytest.raises(LookupError):
        store.inbox.write(slices, lost)
    store.inbox.write(slices, lambda: calls.append(0))
    assert len(calls) > 5
    for shard in range(40):
        assert keys(store, shard * SHARD_MEMBERS + 2) == [KEY]


def test_rows_of_every_shard_are_read(store: Store) -> None:
    shards = [0, 1, 7, 8, 9, 1525]
    store.inbox.write([rows(DENSE | SPARSE, shard=shard) for shard in reversed(shards)])
    for shard in shards:
        assert keys(store, shard * SHARD_MEMBERS) == [KEY]
        assert keys(store, shard * SHARD_MEMBERS + NEXT) == [KEY]
    assert keys(store, 2 * SHARD_MEMBERS) == []


def test_repeated_write_changes_nothing(store: Store) -> None:
    for _ in range(2):
        store.inbox.write([rows(DENSE | SPARSE), rows(from_offsets([1]), tier=Tier.P0)])
    assert [keys(store, member) for member in (0, 1, 3, NEXT)] == [[KEY]] * 4


def test_slice_without_members_writes_nothing(store: Store) -> None:
    store.inbox.write([])
    store.inbox.write([rows(from_offsets([]))])
    assert keys(store, 0) == []


def test_rows_beyond_one_transaction_are_all_written(store: Store) -> None:
    bits = from_offsets(range(7, SHARD_MEMBERS, RANGE_MEMBERS))
    shards = range(0, 8 * 70, 8)  # in one file, where the store has several
    store.inbox.write([rows(bits, shard=shard) for shard in shards])
    for shard in (shards[0], shards[1], shards[-1]):
        first, last = shard * SHARD_MEMBERS, (shard + 1) * SHARD_MEMBERS - RANGE_MEMBERS
        assert [keys(store, member + 7) for member in (first, last)] == [[KEY]] * 2
        assert keys(store, last + 6) == []


def test_rows_of_two_tiers_in_one_range_coexist(store: Store) -> None:
    store.inbox.write([rows(DENSE, tier=Tier.P2), rows(from_offsets([1, 4]), tier=Tier.P0)])
    assert [[row.tier for row in read(store, member)] for member in (0, 1)] == [[Tier.P2], [Tier.P0]]
    assert sorted(row.tier for row in read(store, 4)) == [Tier.P0, Tier.P2]


def test_inbox_window_is_swept_after_all_its_rows_expired(store: Store) -> None:
    old, new = numbered(1), numbered(2)
    # Leave little time until expiry, for backends that expire rows.
    store.clock.advance(RETENTION - timedelta(seconds=2))
    store.inbox.write([rows(DENSE | SPARSE, burst=old, shard=shard) for shard in range(9)])
    store.inbox.write([rows(DENSE, burst=new, opened_at=START + INBOX_WINDOW)])
    assert store.inbox.delete_expired(START + RETENTION - timedelta(seconds=1), 1_000) == 0
    expired = START + RETENTION + INBOX_WINDOW
    swept = [store.inbox.delete_expired(expired, 5) for _ in range(40)]
    assert (sum(swept), swept[-1]) == (0 if store.expires else 9 * 2, 0)
    await_expired(store, NEXT)
    assert keys(store, 0) == [new]
    assert keys(store, NEXT) == []


def await_expired(store: Store, member: int) -> None:
    """Wait, on backends whose rows expire by themselves, until the member's last row has."""
    deadline = monotonic() + 30
    while store.expires and keys(store, member) and monotonic() < deadline:
        sleep(0.1)


def numbered(seq: int) -> BurstKey:
    return replace(KEY, seq=seq)


SEQS = count(1)
SHARDS = st.integers(0, 40)
SHARES = st.sampled_from([0.0, 0.001, 0.02, 0.03125, 0.2, 1.0])
"""At 0.03125 about half of the rows are lists and half are bitmaps."""


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), left=SHARES, right=SHARES, shard=SHARDS)
def test_every_member_reads_its_own_bit(store: Store, seed: int, left: float, right: float, shard: int) -> None:
    rng = np.random.default_rng(seed)
    share = np.where(np.arange(SHARD_MEMBERS) < SHARD_MEMBERS // 2, left, right)
    bits = from_flags(rng.random(SHARD_MEMBERS) < share)
    seq = next(SEQS)
    burst = numbered(seq)
    store.inbox.write([rows(bits, burst=burst, opened_at=START + timedelta(seconds=seq), shard=shard)])
    sampled = [Member(int(m)) for m in rng.integers(0, SHARD_MEMBERS, 40)]

    async def newest() -> list[bool]:
        pages = [await store.timeline.rows(Member(m + shard * SHARD_MEMBERS), [NOVA], None, 1) for m in sampled]
        return [bool(page) and page[0].burst == burst for page in pages]

    assert run(newest()) == [contains(bits, member) for member in sampled]
