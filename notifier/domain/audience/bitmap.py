"""Bitmaps over the members of one shard: dense words in memory, and the smallest quick form in bytes."""

from collections.abc import Iterable, Iterator, Mapping
from zlib import crc32

import numpy as np
import numpy.typing as npt

from notifier.domain.errors import Poison
from notifier.domain.ids import Member

WORD = np.dtype("<u8")

SHARD_MEMBERS = 1 << 17
BLOCK_MEMBERS = 1 << 10
SHARD_BLOCKS = SHARD_MEMBERS // BLOCK_MEMBERS
WORDS = SHARD_MEMBERS // 64
SHARD_BYTES = SHARD_MEMBERS // 8
BLOCK_BYTES = BLOCK_MEMBERS // 8
BLOCK_SLOT = BLOCK_MEMBERS
"""The slot of what is said of a whole block at once, behind those of its members."""

LISTED_BELOW = SHARD_MEMBERS // 32
"""A list of places is smaller below 6 % but takes 0.1 ms to make, five times as long; below 3 % it is worth that."""

FEW_WORDS = WORDS // 4
"""Who is in as many of a shard's words, or fewer, is found sooner in these alone: one person in half the time."""

FEW_PLACES = 512
"""As many members, or fewer, are set one by one, which is sooner done than to pack a flag for everybody."""

SUM_BYTES = 4

Bits = npt.NDArray[np.uint64]
"""One bit for each of a shard's 131,072 members, lowest member first."""

_HALF = SHARD_MEMBERS // 2
_PLACE = np.dtype("<u2")
_LOW_BYTES = 4

_NOBODY = np.zeros(WORDS, dtype=WORD)
_NOBODY.setflags(write=False)


def nobody() -> Bits:
    return _NOBODY


def everybody() -> Bits:
    return np.full(WORDS, np.uint64(0xFFFF_FFFF_FFFF_FFFF), dtype=WORD)


def count(bits: Bits) -> int:
    return int(np.bitwise_count(bits).sum())


def shard_of(member: Member) -> int:
    return member // SHARD_MEMBERS


def block_of(member: Member) -> int:
    return member // BLOCK_MEMBERS


def offsets(bits: Bits) -> npt.NDArray[np.int64]:
    """The members' places within the shard, ascending."""
    words = np.flatnonzero(bits != 0)
    if len(words) > FEW_WORDS:
        return _places(bits)
    found = _places(bits[words])
    return words[found // 64] * 64 + found % 64


def _places(words: Bits) -> npt.NDArray[np.int64]:
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_))


def members(bits: Bits, shard: int) -> list[Member]:
    return [Member(int(o) + shard * SHARD_MEMBERS) for o in offsets(bits)]


def spans(bits: Bits, shard: int) -> Iterator[tuple[Member, Member]]:
    """Of each block in which somebody is, the first and the last of them."""
    for block in np.flatnonzero(bits.reshape(SHARD_BLOCKS, -1).any(axis=1)):
        places = np.flatnonzero(
            np.unpackbits(bits.view(np.uint8)[block * BLOCK_BYTES :][:BLOCK_BYTES], bitorder="little")
        )
        base = shard * SHARD_MEMBERS + int(block) * BLOCK_MEMBERS
        yield Member(base + int(places[0])), Member(base + int(places[-1]))


def from_flags(flags: npt.NDArray[np.bool_]) -> Bits:
    """From one flag for each of the shard's members, or of the first ones."""
    packed = np.zeros(SHARD_BYTES, dtype=np.uint8)
    head = np.packbits(flags, bitorder="little")
    packed[: len(head)] = head
    return packed.view(WORD)


def from_bytes(body: bytes | bytearray) -> Bits:
    """From all of a shard's bytes, as its blocks have them one after the other."""
    return np.frombuffer(body, dtype=WORD, count=WORDS)


def from_offsets(places: Iterable[int]) -> Bits:
    found = places if isinstance(places, np.ndarray) else np.fromiter(places, dtype=np.int64)
    if len(found) <= FEW_PLACES:
        body = np.zeros(SHARD_BYTES, dtype=np.uint8)
        np.bitwise_or.at(body, found >> 3, np.left_shift(1, found & 7).astype(np.uint8))
        return body.view(WORD)
    flags = np.zeros(SHARD_MEMBERS, dtype=np.bool_)
    flags[found] = True
    return from_flags(flags)


def changed(bits: Bits, places: Mapping[int, bool]) -> Bits:
    """Another one, in which each of these places is as it is told."""
    flags = np.unpackbits(bits.view(np.uint8), bitorder="little")
    flags[list(places)] = list(places.values())
    return np.packbits(flags, bitorder="little").view(WORD)


def holds(bits: Bits, member: Member) -> bool:
    place = member % SHARD_MEMBERS
    return bool((int(bits[place // 64]) >> (place % 64)) & 1)


def joined(bitmaps: Iterable[tuple[int, Bits]]) -> dict[int, Bits]:
    """By shard: whoever is in any of the shard's."""
    found: dict[int, Bits] = {}
    for shard, bits in bitmaps:
        found[shard] = found[shard] | bits if shard in found else bits
    return found


def same(one: Bits, other: Bits) -> bool:
    return bool(np.array_equal(one, other))


def encode(bits: Bits) -> bytes:
    """One letter for the form, then the bytes and their sum: nobody, all, one bit for each member, or a list of places.

    A list has two bytes for each place. Those of the shard's lower half come first; four bytes before say how many.
    """
    n = count(bits)
    if n == 0:
        return b"N"
    if n == SHARD_MEMBERS:
        return b"A"
    if n < LISTED_BELOW:
        places = offsets(bits)
        low = int(np.searchsorted(places, _HALF))
        # Two bytes keep what is left of a division by _HALF.
        return _summed(b"L", low.to_bytes(_LOW_BYTES, "little") + places.astype(_PLACE).tobytes())
    return _summed(b"D", bits.tobytes())


def decode(blob: bytes) -> Bits:
    """Raises Poison where a single bit isn't as it was written."""
    match blob[:1]:
        case b"N" if len(blob) == 1:
            return nobody()
        case b"A" if len(blob) == 1:
            return everybody()
        case b"D" if len(blob) == SHARD_BYTES + 1 + SUM_BYTES:
            return np.frombuffer(_checked(blob), dtype=WORD)
        case b"L":
            return from_offsets(_listed(_checked(blob)))
        case _:
            raise Poison(f"A bitmap of {len(blob)} bytes has the form {blob[:1]!r}.")


def _summed(form: bytes, body: bytes) -> bytes:
    return b"".join((form, body, crc32(body).to_bytes(SUM_BYTES, "little")))


def _checked(blob: bytes) -> memoryview:
    body, total = memoryview(blob)[1:-SUM_BYTES], blob[-SUM_BYTES:]
    if len(blob) <= SUM_BYTES or crc32(body).to_bytes(SUM_BYTES, "little") != total:
        raise Poison(f"A bitmap of {len(blob)} bytes isn't as it was written.")
    return body


def _listed(body: memoryview) -> npt.NDArray[np.int64]:
    low, places = int.from_bytes(body[:_LOW_BYTES], "little"), body[_LOW_BYTES:]
    if len(body) < _LOW_BYTES or len(places) % _PLACE.itemsize or low > len(places) // _PLACE.itemsize:
        raise Poison(f"A list of {len(body)} bytes says that {low} places are in the lower half.")
    found = np.frombuffer(places, dtype=_PLACE).astype(np.int64)
    found[low:] += _HALF
    return found
