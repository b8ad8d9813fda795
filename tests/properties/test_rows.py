"""Cutting a shard into rows loses nobody and doubles nobody, whatever the threshold."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience import Tier
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_MEMBERS, Bits, count, members
from notifier.domain.block import BLOCK_SLOT, Row, Rows, cut
from notifier.domain.subject import BurstKey, Member
from tests.properties.crowds import BITMAPS
from tests.unit.examples import NOON, OF_NOVA

KEY = BurstKey(OF_NOVA, 1)
THRESHOLDS = st.sampled_from([1, 2, 31, 32, 33, 512, 1_023, 1_024, 1_025]) | st.integers(1, BLOCK_MEMBERS + 1)


def rows_of(bits: Bits, shard: int, threshold: int) -> Rows:
    return cut(bits, burst=KEY, opened_at=NOON, tier=Tier.P1, shard=shard, threshold=threshold)


def reached(rows: Rows) -> list[int]:
    """Everybody whom a row stands for, once for each row."""
    found = [int(member) for member in rows.members]
    for index, block in enumerate(rows.blocks):
        bitmap = np.frombuffer(rows.bitmap(index), dtype=np.uint8)
        slots = np.flatnonzero(np.unpackbits(bitmap, bitorder="little"))
        found += (slots + int(block) * BLOCK_MEMBERS).tolist()
    return sorted(found)


@given(BITMAPS, st.integers(0, 1_525), THRESHOLDS)
@settings(max_examples=60)
def test_the_rows_stand_for_everybody_once(bits: Bits, shard: int, threshold: int) -> None:
    rows = rows_of(bits, shard, threshold)
    assert reached(rows) == members(bits, shard)
    assert rows.deliveries == count(bits)


@given(BITMAPS, THRESHOLDS)
@settings(max_examples=40)
def test_a_block_has_either_one_row_or_members_below_the_threshold(bits: Bits, threshold: int) -> None:
    rows = rows_of(bits, 0, threshold)
    by_member = np.bincount(rows.members // BLOCK_MEMBERS, minlength=SHARD_MEMBERS // BLOCK_MEMBERS)
    assert (by_member < threshold).all()
    assert not by_member[rows.blocks].any()
    assert len(rows.bitmaps) == len(rows.blocks) * BLOCK_MEMBERS // 8


@given(BITMAPS, st.integers(0, 1_525), st.integers(0, SHARD_MEMBERS - 1))
@settings(max_examples=60)
def test_a_reader_finds_the_row_that_stands_for_them(bits: Bits, shard: int, place: int) -> None:
    rows, member = rows_of(bits, shard, 32), Member(shard * SHARD_MEMBERS + place)
    block = member // BLOCK_MEMBERS
    slots: list[tuple[int, bytes | None]] = [
        (BLOCK_SLOT, rows.bitmap(index)) for index, number in enumerate(rows.blocks) if number == block
    ]
    slots += [(int(m) % BLOCK_MEMBERS, None) for m in rows.members if m // BLOCK_MEMBERS == block]
    found = [Row(burst=KEY, opened_at=NOON, tier=Tier.P1, slot=slot, members=bitmap) for slot, bitmap in slots]
    assert [row.reaches(member) for row in found].count(True) == (member in members(bits, shard))
