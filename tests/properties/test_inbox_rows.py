"""Inbox rows of any bitmap reach each member once, and readers find theirs."""

from collections.abc import Iterable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.devkit.check.check_store import merge_rows
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, count, from_offsets, members
from notifier.domain.audience.inbox_rows import (
    MIN_BITMAP_MEMBERS,
    RANGE_BYTES,
    RANGE_MEMBERS,
    SHARD_RANGES,
    InboxRow,
    InboxRows,
    cut_inbox_rows,
    range_of,
)
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.ids import BurstKey, Member
from notifier.ports.ledger_claims_deferred_bursts_scan import StoredRow
from tests.properties.random_member_sets import BITMAPS
from tests.support.domain_examples import NOON, OF_NOVA

KEY = BurstKey(OF_NOVA, 1)
SHARDS = st.integers(0, 1_525)
NEAR_BITMAP = st.integers(MIN_BITMAP_MEMBERS - 2, MIN_BITMAP_MEMBERS + 1)
ANY = st.integers(0, RANGE_MEMBERS - 1)
SMALL_BYTES = st.builds(lambda low, high: low | high << 8, st.integers(0, 15), st.integers(0, RANGE_MEMBERS // 256 - 1))
"""Both bytes of these places are small, so bytes of two neighbors often read as a third place."""
PLACES = st.sets(ANY, max_size=40) | st.sets(SMALL_BYTES, max_size=200)


@st.composite
def dense_places(draw: st.DrawFn) -> set[int]:
    """Draw places from anywhere in the range, about as many as make a bitmap."""
    random_ = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return set(random_.choice(RANGE_MEMBERS, draw(NEAR_BITMAP), replace=False).tolist())


def rows_of(bits: Bits, shard: int = 0, tier: Tier = Tier.P1) -> InboxRows:
    return cut_inbox_rows(bits, burst=KEY, opened_at=NOON, tier=tier, shard=shard)


def stored_rows(rows: InboxRows) -> list[StoredRow]:
    """Return the rows as a reader of their ranges gets them."""
    return [
        StoredRow(
            member_range=member_range,
            row=InboxRow(burst=rows.burst, opened_at=rows.opened_at, tier=rows.tier, members=members),
        )
        for member_range, members in zip(rows.ranges, rows.members, strict=True)
    ]


def reached_members(rows: Iterable[StoredRow]) -> list[int]:
    """Return each member that a row reaches, once per row."""
    return sorted(row.member_range * RANGE_MEMBERS + place for row in rows for place in row.row.offsets().tolist())


@given(BITMAPS, SHARDS)
@settings(max_examples=60)
def test_every_member_is_reached_once(bits: Bits, shard: int) -> None:
    rows = rows_of(bits, shard)
    assert reached_members(stored_rows(rows)) == members(bits, shard)
    assert rows.delivery_count == count(bits)


@given(BITMAPS, SHARDS)
@settings(max_examples=60)
def test_each_range_with_a_member_has_one_row(bits: Bits, shard: int) -> None:
    rows = rows_of(bits, shard)
    assert rows.ranges == sorted({range_of(member) for member in members(bits, shard)})
    assert rows.row_count == len(rows.ranges) == len(rows.members)
    assert all(range_ // SHARD_RANGES == shard for range_ in rows.ranges)


@given(BITMAPS, SHARDS)
@settings(max_examples=40)
def test_same_bitmap_is_cut_into_the_same_bytes(bits: Bits, shard: int) -> None:
    assert rows_of(bits, shard) == rows_of(bits.copy(), shard)


@given(BITMAPS)
@settings(max_examples=40)
def test_row_has_a_list_of_few_members_and_a_bitmap_of_more(bits: Bits) -> None:
    rows = rows_of(bits)
    member_counts = np.bitwise_count(bits.reshape(SHARD_RANGES, -1)).sum(axis=1)
    assert [len(members_) for members_ in rows.members] == [
        2 * int(n) if n < MIN_BITMAP_MEMBERS else RANGE_BYTES for n in member_counts if n
    ]


@given(PLACES | dense_places())
@settings(max_examples=60)
def test_row_reaches_exactly_the_members_it_names(places: set[int]) -> None:
    """Check all places of a range, including places formed by bytes of two neighbors."""
    rows = [stored.row for stored in stored_rows(rows_of(from_offsets(places)))]
    assert {place for place in range(RANGE_MEMBERS) if any(row.contains(Member(place)) for row in rows)} == places
    assert [place for row in rows for place in row.offsets().tolist()] == sorted(places)


@given(BITMAPS, SHARDS, st.integers(0, SHARD_MEMBERS - 1))
@settings(max_examples=60)
def test_reader_finds_at_most_one_row_in_its_range(bits: Bits, shard: int, offset: int) -> None:
    member = Member(shard * SHARD_MEMBERS + offset)
    rows = [stored.row for stored in stored_rows(rows_of(bits, shard)) if stored.member_range == range_of(member)]
    assert [row.contains(member) for row in rows].count(True) == (member in members(bits, shard))


@given(BITMAPS, BITMAPS, SHARDS)
@settings(max_examples=40)
def test_member_in_two_tiers_is_reached_by_a_row_of_each(first: Bits, second: Bits, shard: int) -> None:
    tiers = dict(zip(TIERS, (first, second), strict=False))
    rows = [row for tier, bits in tiers.items() for row in stored_rows(rows_of(bits, shard, tier))]
    assert reached_members(rows) == sorted([*members(first, shard), *members(second, shard)])
    merged = merge_rows(rows)
    assert merged.row_count == len(rows)
    assert merged.duplicate_count == count(first & second)
    for tier, bits in tiers.items():
        assert int(merged.tier(tier, shard).sum()) == count(bits)
