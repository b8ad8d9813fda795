"""Inbox rows of any bitmap: each member is reached once, and a reader finds exactly her own rows."""

from collections.abc import Iterable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.devkit.check.check_store import put_together
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, count, from_offsets, members
from notifier.domain.audience.inbox_rows import (
    BITMAP_FROM,
    RANGE_BYTES,
    RANGE_MEMBERS,
    SHARD_RANGES,
    InboxRow,
    InboxRows,
    cut,
    range_of,
)
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.ids import BurstKey, Member
from notifier.ports.ledger import StoredRow
from tests.properties.crowds import BITMAPS
from tests.support.examples import NOON, OF_NOVA

KEY = BurstKey(OF_NOVA, 1)
SHARDS = st.integers(0, 1_525)
NEAR_BITMAP = st.integers(BITMAP_FROM - 2, BITMAP_FROM + 1)
ANY = st.integers(0, RANGE_MEMBERS - 1)
STRADDLING = st.builds(lambda low, high: low | high << 8, st.integers(0, 15), st.integers(0, RANGE_MEMBERS // 256 - 1))
"""Places of which both bytes are small, so that the bytes of two neighbors often read as a third place."""
PLACES = st.sets(ANY, max_size=40) | st.sets(STRADDLING, max_size=200)


@st.composite
def dense_places(draw: st.DrawFn) -> set[int]:
    """About as many places as make a bitmap, from anywhere in the range."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return set(chance.choice(RANGE_MEMBERS, draw(NEAR_BITMAP), replace=False).tolist())


def rows_of(bits: Bits, shard: int = 0, tier: Tier = Tier.P1) -> InboxRows:
    return cut(bits, burst=KEY, opened_at=NOON, tier=tier, shard=shard)


def stored(rows: InboxRows) -> list[StoredRow]:
    """Each row as a reader of its range finds it."""
    return [
        StoredRow(
            member_range=member_range,
            row=InboxRow(burst=rows.burst, opened_at=rows.opened_at, tier=rows.tier, members=members),
        )
        for member_range, members in zip(rows.ranges, rows.members, strict=True)
    ]


def reached(rows: Iterable[StoredRow]) -> list[int]:
    """Each member that a row reaches, once for each row."""
    return sorted(one.member_range * RANGE_MEMBERS + place for one in rows for place in one.row.places().tolist())


@given(BITMAPS, SHARDS)
@settings(max_examples=60)
def test_every_member_is_reached_once(bits: Bits, shard: int) -> None:
    rows = rows_of(bits, shard)
    assert reached(stored(rows)) == members(bits, shard)
    assert rows.deliveries == count(bits)


@given(BITMAPS, SHARDS)
@settings(max_examples=60)
def test_each_range_with_a_member_has_one_row(bits: Bits, shard: int) -> None:
    rows = rows_of(bits, shard)
    assert rows.ranges == sorted({range_of(member) for member in members(bits, shard)})
    assert rows.written == len(rows.ranges) == len(rows.members)
    assert all(each // SHARD_RANGES == shard for each in rows.ranges)


@given(BITMAPS, SHARDS)
@settings(max_examples=40)
def test_same_bitmap_is_cut_into_the_same_bytes(bits: Bits, shard: int) -> None:
    assert rows_of(bits, shard) == rows_of(bits.copy(), shard)


@given(BITMAPS)
@settings(max_examples=40)
def test_row_has_a_list_of_few_members_and_a_bitmap_of_more(bits: Bits) -> None:
    rows = rows_of(bits)
    reached = np.bitwise_count(bits.reshape(SHARD_RANGES, -1)).sum(axis=1)
    assert [len(each) for each in rows.members] == [
        2 * int(n) if n < BITMAP_FROM else RANGE_BYTES for n in reached if n
    ]


@given(PLACES | dense_places())
@settings(max_examples=60)
def test_reader_finds_the_row_exactly_if_it_names_her(places: set[int]) -> None:
    """Asks for all places of a range, also where two bytes of a list straddle two places."""
    found = [one.row for one in stored(rows_of(from_offsets(places)))]
    assert {place for place in range(RANGE_MEMBERS) if any(row.reaches(Member(place)) for row in found)} == places
    assert [place for row in found for place in row.places().tolist()] == sorted(places)


@given(BITMAPS, SHARDS, st.integers(0, SHARD_MEMBERS - 1))
@settings(max_examples=60)
def test_reader_finds_at_most_one_row_in_her_range(bits: Bits, shard: int, offset: int) -> None:
    member = Member(shard * SHARD_MEMBERS + offset)
    there = [one.row for one in stored(rows_of(bits, shard)) if one.member_range == range_of(member)]
    assert [row.reaches(member) for row in there].count(True) == (member in members(bits, shard))


@given(BITMAPS, BITMAPS, SHARDS)
@settings(max_examples=40)
def test_member_in_two_tiers_is_reached_by_a_row_of_each(one: Bits, other: Bits, shard: int) -> None:
    tiers = dict(zip(TIERS, (one, other), strict=False))
    rows = [row for tier, bits in tiers.items() for row in stored(rows_of(bits, shard, tier))]
    assert reached(rows) == sorted([*members(one, shard), *members(other, shard)])
    found = put_together(rows)
    assert found.rows == len(rows)
    assert found.twice == count(one & other)
    for tier, bits in tiers.items():
        assert int(found.tier(tier, shard).sum()) == count(bits)
