"""Bitmaps: the form of their bytes, and what is no bitmap."""

from zlib import crc32

import numpy as np
import pytest

from notifier.domain.audience.bitmap import (
    CHECKSUM_BYTES,
    LISTED_BELOW,
    SHARD_MEMBERS,
    all_members,
    block_of,
    contains,
    count,
    decode,
    encode,
    from_offsets,
    members,
    no_members,
    offsets,
    shard_of,
)
from notifier.domain.errors import Poison
from notifier.domain.ids import Member


def summed(form: bytes, body: bytes) -> bytes:
    return form + body + crc32(body).to_bytes(CHECKSUM_BYTES, "little")


TOO_MANY_LOW = summed(b"L", (2).to_bytes(4, "little") + b"ab")
ODD = summed(b"L", bytes(4) + b"abc")
NO_COUNT = summed(b"L", b"x")
TOO_SHORT = summed(b"D", b"123")


@pytest.mark.parametrize(
    ("n", "form"),
    [
        (0, b"N"),
        (1, b"L"),
        (LISTED_BELOW - 1, b"L"),
        (LISTED_BELOW, b"D"),
        (SHARD_MEMBERS - 1, b"D"),
        (SHARD_MEMBERS, b"A"),
    ],
)
def test_the_form_follows_from_the_number_of_members(n: int, form: bytes) -> None:
    bits = from_offsets(range(n))
    assert encode(bits)[:1] == form
    assert np.array_equal(decode(encode(bits)), bits)


@pytest.mark.parametrize("step", [1, 63, 128, 256, 257, 5_000, SHARD_MEMBERS])
def test_people_are_found_where_they_are_however_many_they_are(step: int) -> None:
    places = range(step // 2, SHARD_MEMBERS, step)
    assert offsets(from_offsets(places)).tolist() == list(places)
    assert offsets(no_members()).tolist() == []


@pytest.mark.parametrize(
    "blob",
    [b"", b"L", b"Lx", b"L1234", NO_COUNT, ODD, TOO_SHORT, b"Nx", b"Ax", b"Z", TOO_MANY_LOW, encode(all_members()) * 2],
)
def test_what_is_no_bitmap_is_poison_and_never_a_guess(blob: bytes) -> None:
    with pytest.raises(Poison):
        decode(blob)


@pytest.mark.parametrize("n", [1, LISTED_BELOW - 1, LISTED_BELOW, SHARD_MEMBERS - 1])
@pytest.mark.parametrize("at", [1, 20, -CHECKSUM_BYTES - 1, -1])
def test_a_single_bit_that_isn_t_as_it_was_written_is_found(n: int, at: int) -> None:
    blob = bytearray(encode(from_offsets(range(n))))
    blob[at if at < len(blob) else 1] ^= 0x10
    with pytest.raises(Poison):
        decode(bytes(blob))


def test_nobody_can_t_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        no_members()[0] = 1


def test_everybody_is_a_shard() -> None:
    assert (count(all_members()), count(no_members())) == (SHARD_MEMBERS, 0)


def test_members_are_numbered_through_all_shards() -> None:
    member = Member(3 * SHARD_MEMBERS + 1_025)
    assert (shard_of(member), block_of(member)) == (3, 3 * 128 + 1)
    bits = from_offsets([1_025])
    assert members(bits, 3) == [member]
    assert contains(bits, member)
    assert not contains(bits, Member(member + 1))
