"""Bitmaps: the form of their bytes, and what is no bitmap."""

import numpy as np
import pytest
from pyroaring import BitMap

from notifier.domain.bits import (
    SHARD_MEMBERS,
    SPARSE_BELOW,
    block_of,
    count,
    decode,
    encode,
    everybody,
    from_offsets,
    holds,
    members,
    nobody,
    shard_of,
)
from notifier.domain.errors import Poison
from notifier.domain.subject import Member

TOO_FAR = b"R" + bytes(BitMap([1, SHARD_MEMBERS]).serialize())


@pytest.mark.parametrize(
    ("n", "form"),
    [
        (0, b"N"),
        (1, b"R"),
        (SPARSE_BELOW - 1, b"R"),
        (SPARSE_BELOW, b"D"),
        (SHARD_MEMBERS - 1, b"D"),
        (SHARD_MEMBERS, b"A"),
    ],
)
def test_the_form_follows_from_the_number_of_members(n: int, form: bytes) -> None:
    bits = from_offsets(range(n))
    assert encode(bits)[:1] == form
    assert np.array_equal(decode(encode(bits)), bits)


@pytest.mark.parametrize("blob", [b"", b"R", b"Rx", b"D123", b"Nx", b"Ax", b"Z", TOO_FAR, encode(everybody()) * 2])
def test_what_is_no_bitmap_is_poison_and_never_a_guess(blob: bytes) -> None:
    with pytest.raises(Poison):
        decode(blob)


def test_nobody_can_t_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        nobody()[0] = 1


def test_everybody_is_a_shard() -> None:
    assert (count(everybody()), count(nobody())) == (SHARD_MEMBERS, 0)


def test_members_are_numbered_through_all_shards() -> None:
    member = Member(3 * SHARD_MEMBERS + 1_025)
    assert (shard_of(member), block_of(member)) == (3, 3 * 128 + 1)
    bits = from_offsets([1_025])
    assert members(bits, 3) == [member]
    assert holds(bits, member)
    assert not holds(bits, Member(member + 1))
