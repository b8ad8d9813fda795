"""Inbox rows by example: rows of a bitmap, and members that a row reaches."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_offsets, no_members
from notifier.domain.audience.inbox_rows import (
    INBOX_WINDOW,
    MIN_BITMAP_MEMBERS,
    RANGE_BYTES,
    RANGE_MEMBERS,
    SHARD_RANGES,
    InboxRow,
    InboxRows,
    cut_inbox_rows,
    range_of,
    window_of,
)
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey, Member
from tests.support.domain_examples import NOON, OF_NOVA

KEY = BurstKey(OF_NOVA, 1)
LAST = RANGE_MEMBERS - 1


def rows(bits: Bits, *, shard: int = 0) -> InboxRows:
    return cut_inbox_rows(bits, burst=KEY, opened_at=NOON, tier=Tier.P1, shard=shard)


def row(members: bytes) -> InboxRow:
    return InboxRow(burst=KEY, opened_at=NOON, tier=Tier.P1, members=members)


def list_of(*places: int) -> bytes:
    return b"".join(place.to_bytes(2, "little") for place in places)


def reached(inbox_row: InboxRow, places: Iterable[int]) -> list[int]:
    return [place for place in places if inbox_row.contains(Member(place))]


def test_empty_bitmap_gives_no_rows() -> None:
    cut_rows = rows(no_members())
    assert (cut_rows.ranges, cut_rows.members, cut_rows.row_count, cut_rows.delivery_count) == ([], [], 0, 0)


def test_row_lists_few_members_in_two_bytes_each() -> None:
    cut_rows = rows(from_offsets([1, 258, LAST]))
    assert (cut_rows.ranges, cut_rows.members) == ([0], [b"\x01\x00\x02\x01" + list_of(LAST)])
    assert (cut_rows.row_count, cut_rows.delivery_count) == (1, 3)


def test_row_has_a_bitmap_when_a_32nd_of_its_range_is_reached() -> None:
    few, many = range(MIN_BITMAP_MEMBERS - 1), range(RANGE_MEMBERS, RANGE_MEMBERS + MIN_BITMAP_MEMBERS)
    cut_rows = rows(from_offsets([*few, *many]))
    listed, bitmap = cut_rows.members
    assert cut_rows.ranges == [0, 1]
    assert listed == list_of(*few)
    assert bitmap == (b"\xff" * (MIN_BITMAP_MEMBERS // 8)).ljust(RANGE_BYTES, b"\x00")
    assert 32 * MIN_BITMAP_MEMBERS == RANGE_MEMBERS
    assert (cut_rows.row_count, cut_rows.delivery_count) == (2, 2 * MIN_BITMAP_MEMBERS - 1)


@pytest.mark.parametrize("count", [MIN_BITMAP_MEMBERS - 1, MIN_BITMAP_MEMBERS])
def test_row_reaches_the_same_members_as_a_list_and_as_a_bitmap(count: int) -> None:
    places = [LAST - place for place in range(count)][::-1]
    inbox_row = row(rows(from_offsets(places)).members[0])
    assert (len(inbox_row.members) == RANGE_BYTES) == (count == MIN_BITMAP_MEMBERS)
    assert inbox_row.offsets().tolist() == places
    assert reached(inbox_row, range(RANGE_MEMBERS)) == places


def test_ranges_are_numbered_across_shards() -> None:
    cut_rows = rows(from_offsets([5, *range(RANGE_MEMBERS, 2 * RANGE_MEMBERS), SHARD_MEMBERS - 1]), shard=3)
    assert cut_rows.ranges == [3 * SHARD_RANGES, 3 * SHARD_RANGES + 1, 4 * SHARD_RANGES - 1]
    assert cut_rows.members == [list_of(5), b"\xff" * RANGE_BYTES, list_of(LAST)]
    assert range_of(Member(4 * SHARD_MEMBERS - 1)) == cut_rows.ranges[-1]


def test_neighboring_places_of_two_ranges_are_in_separate_rows() -> None:
    cut_rows = rows(from_offsets([LAST, RANGE_MEMBERS]))
    assert (cut_rows.ranges, cut_rows.members) == ([0, 1], [list_of(LAST), list_of(0)])
    assert [range_of(Member(member)) for member in (0, LAST, RANGE_MEMBERS)] == [0, 0, 1]


def test_cut_leaves_the_bitmap_unchanged() -> None:
    places = [3, *range(RANGE_MEMBERS, RANGE_MEMBERS + 600)]
    bits = from_offsets(places)
    rows(bits)
    assert bits.tobytes() == from_offsets(places).tobytes()


@pytest.mark.parametrize("place", [0, 1, 255, 256, LAST])
def test_row_of_one_member_reaches_only_that_member(place: int) -> None:
    inbox_row = row(list_of(place))
    assert reached(inbox_row, range(RANGE_MEMBERS)) == inbox_row.offsets().tolist() == [place]
    assert inbox_row.contains(Member(7 * RANGE_MEMBERS + place))


def test_list_does_not_reach_a_place_whose_bytes_straddle_two_others() -> None:
    """The bytes are 01 02 01 03: in the middle they read 02 01, which is place 0x0102."""
    inbox_row = row(list_of(0x0201, 0x0301))
    assert reached(inbox_row, range(RANGE_MEMBERS)) == [0x0201, 0x0301]


def test_list_reaches_a_place_whose_bytes_also_straddle_two_others() -> None:
    """The bytes are 01 01 02 01 01 02: place 0x0201 is found at an odd position before its own."""
    inbox_row = row(list_of(0x0101, 0x0102, 0x0201))
    assert reached(inbox_row, range(RANGE_MEMBERS)) == [0x0101, 0x0102, 0x0201]


@pytest.mark.parametrize("place", [0, 7, 8, LAST])
def test_bitmap_reaches_the_places_of_its_bits(place: int) -> None:
    bits = bytearray(RANGE_BYTES)
    bits[place // 8] |= 1 << place % 8
    inbox_row = row(bytes(bits))
    assert reached(inbox_row, range(RANGE_MEMBERS)) == inbox_row.offsets().tolist() == [place]


@pytest.mark.parametrize("length", [0, 1, RANGE_BYTES - 1, RANGE_BYTES + 1, RANGE_BYTES + 2, 2 * RANGE_BYTES])
def test_row_of_invalid_length_is_poison(length: int) -> None:
    with pytest.raises(Poison, match=f"length of {length} bytes"):
        row(bytes(length)).offsets()


@pytest.mark.parametrize("place", [RANGE_MEMBERS, 0xFFFF])
def test_row_that_names_a_place_outside_the_range_is_poison(place: int) -> None:
    with pytest.raises(Poison, match=f"has the offset {place}"):
        row(list_of(3, place)).offsets()


def test_inbox_window_lasts_three_days() -> None:
    start = datetime(1970, 1, 1, tzinfo=UTC) + 7_000 * INBOX_WINDOW
    assert [window_of(start), window_of(start + INBOX_WINDOW)] == [7_000, 7_001]
    assert window_of(start - datetime.resolution) == 6_999
