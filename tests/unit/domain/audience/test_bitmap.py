"""Bitmaps: their byte formats, and rejection of damaged blobs."""

from zlib import crc32

import numpy as np
import pytest

from notifier.domain.audience.bitmap import (
    CHECKSUM_BYTES,
    MIN_DENSE_MEMBERS,
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


def with_checksum(form: bytes, body: bytes) -> bytes:
    return form + body + crc32(body).to_bytes(CHECKSUM_BYTES, "little")


TOO_MANY_LOW = with_checksum(b"L", (2).to_bytes(4, "little") + b"ab")
ODD = with_checksum(b"L", bytes(4) + b"abc")
NO_COUNT = with_checksum(b"L", b"x")
TOO_SHORT = with_checksum(b"D", b"123")


@pytest.mark.parametrize(
    ("n", "form"),
    [
        (0, b"N"),
        (1, b"L"),
        (MIN_DENSE_MEMBERS - 1, b"L"),
        (MIN_DENSE_MEMBERS, b"D"),
        (SHARD_MEMBERS - 1, b"D"),
        (SHARD_MEMBERS, b"A"),
    ],
)
def test_format_depends_on_the_number_of_members(n: int, form: bytes) -> None:
    bits = from_offsets(range(n))
    assert encode(bits)[:1] == form
    assert np.array_equal(decode(encode(bits)), bits)


@pytest.mark.parametrize("step", [1, 63, 128, 256, 257, 5_000, SHARD_MEMBERS])
def test_offsets_are_read_back_at_every_density(step: int) -> None:
    places = range(step // 2, SHARD_MEMBERS, step)
    assert offsets(from_offsets(places)).tolist() == list(places)
    assert offsets(no_members()).tolist() == []


@pytest.mark.parametrize(
    "blob",
    [b"", b"L", b"Lx", b"L1234", NO_COUNT, ODD, TOO_SHORT, b"Nx", b"Ax", b"Z", TOO_MANY_LOW, encode(all_members()) * 2],
)
def test_invalid_blob_is_poison(blob: bytes) -> None:
    with pytest.raises(Poison):
        decode(blob)


@pytest.mark.parametrize("n", [1, MIN_DENSE_MEMBERS - 1, MIN_DENSE_MEMBERS, SHARD_MEMBERS - 1])
@pytest.mark.parametrize("at", [1, 20, -CHECKSUM_BYTES - 1, -1])
def test_flipped_bit_is_detected(n: int, at: int) -> None:
    blob = bytearray(encode(from_offsets(range(n))))
    blob[at if at < len(blob) else 1] ^= 0x10
    with pytest.raises(Poison):
        decode(bytes(blob))


def test_empty_bitmap_is_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        no_members()[0] = 1


def test_full_bitmap_has_all_members_of_a_shard() -> None:
    assert (count(all_members()), count(no_members())) == (SHARD_MEMBERS, 0)


def test_members_are_numbered_across_shards() -> None:
    member = Member(3 * SHARD_MEMBERS + 1_025)
    assert (shard_of(member), block_of(member)) == (3, 3 * 128 + 1)
    bits = from_offsets([1_025])
    assert members(bits, 3) == [member]
    assert contains(bits, member)
    assert not contains(bits, Member(member + 1))
