"""Rows: where a block gets one for all, and whom a row reaches."""

from datetime import UTC, datetime

from notifier.domain.audience import Tier
from notifier.domain.bits import BLOCK_BYTES, BLOCK_MEMBERS, SHARD_BLOCKS, Bits, from_offsets, nobody
from notifier.domain.block import BLOCK_SLOT, INBOX_WINDOW, Row, Rows, cut, window_of
from notifier.domain.subject import BurstKey, Member
from tests.unit.examples import NOON, OF_NOVA

KEY = BurstKey(OF_NOVA, 1)


def rows(bits: Bits, *, shard: int = 0, threshold: int = 32) -> Rows:
    return cut(bits, burst=KEY, opened_at=NOON, tier=Tier.P1, shard=shard, threshold=threshold)


def row(slot: int, bitmap: bytes | None = None) -> Row:
    return Row(burst=KEY, opened_at=NOON, tier=Tier.P1, slot=slot, members=bitmap)


def test_nobody_needs_no_rows() -> None:
    assert (rows(nobody()).written, rows(nobody()).deliveries) == (0, 0)


def test_a_block_reached_t_times_gets_one_row_for_all() -> None:
    few, many = range(31), range(BLOCK_MEMBERS, BLOCK_MEMBERS + 32)
    found = rows(from_offsets([*few, *many]))
    assert (found.blocks.tolist(), found.members.tolist()) == ([1], list(few))
    assert (found.written, found.deliveries) == (32, 63)


def test_blocks_and_members_are_numbered_through_all_shards() -> None:
    found = rows(from_offsets([5, *range(BLOCK_MEMBERS, 2 * BLOCK_MEMBERS)]), shard=3)
    assert found.blocks.tolist() == [3 * SHARD_BLOCKS + 1]
    assert found.members.tolist() == [3 * SHARD_BLOCKS * BLOCK_MEMBERS + 5]
    assert found.bitmap(0) == b"\xff" * BLOCK_BYTES


def test_the_cut_leaves_the_sealed_bitmap_as_it_was() -> None:
    bits = from_offsets(range(100))
    rows(bits)
    assert bits.tobytes() == from_offsets(range(100)).tobytes()


def test_a_member_row_reaches_its_member_alone() -> None:
    assert row(5).reaches(Member(5 * BLOCK_MEMBERS + 5))
    assert not row(5).reaches(Member(5 * BLOCK_MEMBERS + 6))


def test_a_block_row_reaches_those_in_its_bitmap() -> None:
    found = row(BLOCK_SLOT, rows(from_offsets([9]), threshold=1).bitmap(0))
    assert found.reaches(Member(7 * BLOCK_MEMBERS + 9))
    assert not found.reaches(Member(7 * BLOCK_MEMBERS + 8))


def test_an_inbox_window_lasts_three_days() -> None:
    start = datetime(1970, 1, 1, tzinfo=UTC) + 7_000 * INBOX_WINDOW
    assert [window_of(start), window_of(start + INBOX_WINDOW)] == [7_000, 7_001]
    assert window_of(start - datetime.resolution) == 6_999
