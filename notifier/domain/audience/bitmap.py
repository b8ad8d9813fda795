"""Bitmaps of the members of one shard, and their encoding in bytes."""

from collections.abc import Iterable, Iterator, Mapping
from zlib import crc32

import numpy as np
import numpy.typing as npt

from notifier.domain.errors import Poison
from notifier.domain.ids import Member

_WORD_TYPE = np.dtype("<u8")

SHARD_MEMBERS = 1 << 17
BLOCK_MEMBERS = 1 << 10
SHARD_BLOCKS = SHARD_MEMBERS // BLOCK_MEMBERS
SHARD_WORDS = SHARD_MEMBERS // 64
SHARD_BYTES = SHARD_MEMBERS // 8
BLOCK_BYTES = BLOCK_MEMBERS // 8
WHOLE_BLOCK_SLOT = BLOCK_MEMBERS
"""Slot of the row for a whole block. It sorts after the slots of the members."""

MIN_DENSE_MEMBERS = SHARD_MEMBERS // 32
"""Bitmaps with fewer members are encoded as a list of offsets.

With fewer than 6 % of the members a list is smaller than a bitmap, but takes 0.1 ms to build, five times as long.
Below 3 % the smaller size is worth the time.
"""

MAX_SPARSE_WORDS = SHARD_WORDS // 4
"""With at most this many nonzero words, `offsets` unpacks only these. That halves the time for a single member."""

MAX_SINGLE_BITS = 512
"""Up to this many members, setting single bits is faster than packing one flag per member of the shard."""

CHECKSUM_BYTES = 4

Bits = npt.NDArray[np.uint64]
"""One bit for each of a shard's 131,072 members, lowest member first."""

_HALF = SHARD_MEMBERS // 2
"""Offsets below this one fit into two bytes. Those of the upper half are stored minus _HALF."""
_OFFSET_TYPE = np.dtype("<u2")
_LOW_COUNT_BYTES = 4
"""Bytes of the count of offsets in the lower half."""

_NO_MEMBERS = np.zeros(SHARD_WORDS, dtype=_WORD_TYPE)
_NO_MEMBERS.setflags(write=False)


def no_members() -> Bits:
    return _NO_MEMBERS


def all_members() -> Bits:
    return np.full(SHARD_WORDS, np.uint64(0xFFFF_FFFF_FFFF_FFFF), dtype=_WORD_TYPE)


def count(bits: Bits) -> int:
    return int(np.bitwise_count(bits).sum())


def shard_of(member: Member) -> int:
    return member // SHARD_MEMBERS


def block_of(member: Member) -> int:
    return member // BLOCK_MEMBERS


def offsets(bits: Bits) -> npt.NDArray[np.int64]:
    """Return the offsets of the members within the shard, ascending."""
    nonzero = np.flatnonzero(bits != 0)
    if len(nonzero) > MAX_SPARSE_WORDS:
        return _set_bits(bits)
    in_nonzero = _set_bits(bits[nonzero])
    return nonzero[in_nonzero // 64] * 64 + in_nonzero % 64


def _set_bits(bits: Bits) -> npt.NDArray[np.int64]:
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little").view(np.bool_))


def members(bits: Bits, shard: int) -> list[Member]:
    return [Member(int(o) + shard * SHARD_MEMBERS) for o in offsets(bits)]


def member_spans(bits: Bits, shard: int) -> Iterator[tuple[Member, Member]]:
    """Yield the first and the last member in each block that has members."""
    for block in np.flatnonzero(bits.reshape(SHARD_BLOCKS, -1).any(axis=1)):
        slots = np.flatnonzero(
            np.unpackbits(bits.view(np.uint8)[block * BLOCK_BYTES :][:BLOCK_BYTES], bitorder="little")
        )
        base = shard * SHARD_MEMBERS + int(block) * BLOCK_MEMBERS
        yield Member(base + int(slots[0])), Member(base + int(slots[-1]))


def from_flags(flags: npt.NDArray[np.bool_]) -> Bits:
    """Build a bitmap from one flag per member, for all members of the shard or the first ones."""
    packed = np.zeros(SHARD_BYTES, dtype=np.uint8)
    flag_bytes = np.packbits(flags, bitorder="little")
    packed[: len(flag_bytes)] = flag_bytes
    return packed.view(_WORD_TYPE)


def from_bytes(body: bytes | bytearray) -> Bits:
    """Wrap the bytes of a whole shard: its blocks, concatenated."""
    return np.frombuffer(body, dtype=_WORD_TYPE, count=SHARD_WORDS)


def from_offsets(member_offsets: Iterable[int]) -> Bits:
    array = member_offsets if isinstance(member_offsets, np.ndarray) else np.fromiter(member_offsets, dtype=np.int64)
    if len(array) <= MAX_SINGLE_BITS:
        body = np.zeros(SHARD_BYTES, dtype=np.uint8)
        np.bitwise_or.at(body, array >> 3, np.left_shift(1, array & 7).astype(np.uint8))
        return body.view(_WORD_TYPE)
    flags = np.zeros(SHARD_MEMBERS, dtype=np.bool_)
    flags[array] = True
    return from_flags(flags)


def with_members(bits: Bits, values: Mapping[int, bool]) -> Bits:
    """Return a copy in which each of these offsets has the given value."""
    flags = np.unpackbits(bits.view(np.uint8), bitorder="little")
    flags[list(values)] = list(values.values())
    return np.packbits(flags, bitorder="little").view(_WORD_TYPE)


def contains(bits: Bits, member: Member) -> bool:
    offset = member % SHARD_MEMBERS
    return bool((int(bits[offset // 64]) >> (offset % 64)) & 1)


def union_by_shard(bitmaps: Iterable[tuple[int, Bits]]) -> dict[int, Bits]:
    """Return the union of the bitmaps of each shard."""
    by_shard: dict[int, Bits] = {}
    for shard, bits in bitmaps:
        by_shard[shard] = by_shard[shard] | bits if shard in by_shard else bits
    return by_shard


def is_equal(first: Bits, second: Bits) -> bool:
    return bool(np.array_equal(first, second))


def encode(bits: Bits) -> bytes:
    """Encode a bitmap as one letter for the form, the body, and a CRC-32 of the body.

    N (no members) and A (all members) have no body and no checksum.
    D (dense): one bit per member.
    L (list): two bytes per offset. Offsets in the lower half of the shard come first, preceded by their count in
    four bytes.
    """
    n = count(bits)
    if n == 0:
        return b"N"
    if n == SHARD_MEMBERS:
        return b"A"
    if n < MIN_DENSE_MEMBERS:
        member_offsets = offsets(bits)
        low_count = int(np.searchsorted(member_offsets, _HALF))
        # The cast to two bytes stores each offset modulo _HALF.
        body = low_count.to_bytes(_LOW_COUNT_BYTES, "little") + member_offsets.astype(_OFFSET_TYPE).tobytes()
        return _with_checksum(b"L", body)
    return _with_checksum(b"D", bits.tobytes())


def decode(blob: bytes) -> Bits:
    """Decode a bitmap. Raises Poison for malformed bytes."""
    match blob[:1]:
        case b"N" if len(blob) == 1:
            return no_members()
        case b"A" if len(blob) == 1:
            return all_members()
        case b"D" if len(blob) == SHARD_BYTES + 1 + CHECKSUM_BYTES:
            return np.frombuffer(_verified_body(blob), dtype=_WORD_TYPE)
        case b"L":
            return from_offsets(_decode_list(_verified_body(blob)))
        case _:
            raise Poison(f"A bitmap of {len(blob)} bytes has an unknown form, or a wrong length for it: {blob[:1]!r}.")


def _with_checksum(form: bytes, body: bytes) -> bytes:
    return b"".join((form, body, crc32(body).to_bytes(CHECKSUM_BYTES, "little")))


def _verified_body(blob: bytes) -> memoryview:
    body, checksum = memoryview(blob)[1:-CHECKSUM_BYTES], blob[-CHECKSUM_BYTES:]
    if len(blob) <= CHECKSUM_BYTES or crc32(body).to_bytes(CHECKSUM_BYTES, "little") != checksum:
        raise Poison(f"A bitmap of {len(blob)} bytes has a wrong checksum.")
    return body


def _decode_list(body: memoryview) -> npt.NDArray[np.int64]:
    low_count, packed = int.from_bytes(body[:_LOW_COUNT_BYTES], "little"), body[_LOW_COUNT_BYTES:]
    if (
        len(body) < _LOW_COUNT_BYTES
        or len(packed) % _OFFSET_TYPE.itemsize
        or low_count > len(packed) // _OFFSET_TYPE.itemsize
    ):
        raise Poison(f"A list of {len(body)} bytes claims {low_count} offsets in the lower half.")
    array = np.frombuffer(packed, dtype=_OFFSET_TYPE).astype(np.int64)
    array[low_count:] += _HALF
    return array
