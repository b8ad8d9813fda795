"""Headers to bytes and back (HPACK, RFC 7541), cheaply: we enter nothing in any table, and few peers do."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import hpack
from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

from notifier.adapters.http2.frames import COMPRESSION_ERROR, Violation

# Packed letters (the Huffman code of HPACK), unpacked a byte at a time, where the package `hpack` takes half ones.
#
# Providers pack the id that they answer with, and to unpack it took twice as long as all the rest of a send.

_FAILED = -1

Step = tuple[int, bytes, int]
"""The state after a byte, the letters that come out, and whether they may end there."""

_STEPS: dict[int, Step] = {}
"""By the state before a byte and the byte; each is computed when it is first met. There are 65,536, and some hundreds
are ever met."""


def unpacked(packed: bytes) -> bytes | None:
    """None of what isn't packed letters."""
    state, ends, found = 0, 1, []
    for byte in packed:
        key = state << 8 | byte
        state, letters, ends = _STEPS.get(key) or _step(key)
        if state == _FAILED:
            return None
        found.append(letters)
    return b"".join(found) if ends else None


def _step(key: int) -> Step:
    state, flags, letters = key >> 8, 0, bytearray()
    for half in (key >> 4 & 0xF, key & 0xF):
        state, flags, letter = HUFFMAN_TABLE[state * 16 + half]
        if flags & HUFFMAN_FAIL:
            state = _FAILED
            break
        if flags & HUFFMAN_EMIT_SYMBOL:
            letters.append(letter)
    _STEPS[key] = found = state, bytes(letters), flags & HUFFMAN_COMPLETE
    return found


_STATIC = HeaderTable.STATIC_TABLE
_KNOWN = len(_STATIC)
_NUMBERS = {name: number for number, (name, _) in reversed([*enumerate(_STATIC, 1)])}

NO_TABLE = b"\x20"
"""Says that nothing will be entered, so that no limit of the peer's matters; begins a connection's first block."""
SECRET = {"authorization", "cookie", "proxy-authorization"}
"""Never indexed, by nobody on the way either."""
MOST = 65_536
"""Bytes of all headers of an answer, unpacked."""


def encoded(fields: Iterable[tuple[str, str]]) -> bytes:
    return b"".join([_remembered(name, value) for name, value in fields])


def field(name: str, value: str) -> bytes:
    number = _NUMBERS.get(name.encode(), 0)
    how = 0x10 if name in SECRET else 0x00
    return _number(how, 0x0F, number) + (b"" if number else _text(name)) + _text(value)


# Most of an alert's headers are those of the one before. What is in each another one goes as fast as it came.
_remembered = lru_cache(maxsize=1024)(field)


def _text(value: str) -> bytes:
    raw = value.encode()
    return _number(0, 0x7F, len(raw)) + raw


def _number(how: int, most: int, value: int) -> bytes:
    if value < most:
        return bytes((how | value,))
    rest, found = value - most, bytearray((how | most,))
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


class Decoder:
    """Of one connection; blocks are given in the order in which they come."""

    __slots__ = ("_hpack",)

    def __init__(self) -> None:
        self._hpack = hpack.Decoder(max_header_list_size=MOST)

    def decode(self, block: bytes) -> Sequence[tuple[bytes, bytes]]:
        """Raises Violation."""
        if (found := plain(block, tableless=not self._hpack.header_table.maxsize)) is not None:
            return found
        try:
            return [(name, value) for name, value in self._hpack.decode(block, raw=True)]
        except hpack.HPACKError as error:
            raise Violation(COMPRESSION_ERROR, "headers that can't be read") from error


def plain(block: bytes, *, tableless: bool) -> list[tuple[bytes, bytes]] | None:
    """What a block says that has nothing to do with the connection's table; None of another one, and of a broken one.

    Without a table nothing that is to be entered is: as our settings ask for.
    """
    found: list[tuple[bytes, bytes]] = []
    at, end = 0, len(block)
    try:
        while at < end:
            first = block[at]
            at += 1
            if first & 0x80:
                number = first & 0x7F
                if not 0 < number <= _KNOWN:
                    return None
                found.append(_STATIC[number - 1])
                continue
            if first & 0x60 and not (tableless and first & 0x40):
                return None  # enters something, or changes the table's size
            number, at = _read(block, at, first, 0x3F if first & 0x40 else 0x0F)
            if number > _KNOWN:
                return None
            name, at = (_STATIC[number - 1][0], at) if number else _letters(block, at)
            value, at = _letters(block, at)
            if name is None or value is None:
                return None
            found.append((name, value))
    except IndexError:
        return None
    return found if at == end else None


def _letters(block: bytes, at: int) -> tuple[bytes | None, int]:
    first = block[at]
    length, at = _read(block, at + 1, first, 0x7F)
    raw = block[at : at + length]
    return (unpacked(raw) if first & 0x80 else raw), at + length


def _read(block: bytes, at: int, first: int, most: int) -> tuple[int, int]:
    """A number that begins in the low bits of `first`, and where it ends."""
    number, shift = first & most, 0
    if number < most:
        return number, at
    while shift <= 28:
        piece = block[at]
        at += 1
        number += (piece & 0x7F) << shift
        shift += 7
        if piece < 0x80:
            return number, at
    raise IndexError
