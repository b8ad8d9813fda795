"""Fast HPACK header encoding and decoding (RFC 7541) without a dynamic table.

This client never adds entries to the dynamic table, and few peers do.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import hpack
from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

from notifier.adapters.http2.frames import COMPRESSION_ERROR, Violation

# Huffman decoding, one byte per step; the package `hpack` decodes half bytes.
#
# Providers Huffman-encode the id in their answers. Decoding it by half bytes took twice as long as the rest of a send.

_FAILED = -1

Step = tuple[int, bytes, int]
"""State after a byte, the decoded characters, and whether the input may end there."""

_STEPS: dict[int, Step] = {}
"""Steps by previous state and byte, computed on first use. Some hundreds of the 65,536 possible ones ever occur."""


def huffman_decoded(packed: bytes) -> bytes | None:
    """Decode a Huffman-encoded string. Return None if it is invalid."""
    state, ends, decoded = 0, 1, []
    for byte in packed:
        key = state << 8 | byte
        state, output, ends = _STEPS.get(key) or _step(key)
        if state == _FAILED:
            return None
        decoded.append(output)
    return b"".join(decoded) if ends else None


def _step(key: int) -> Step:
    state, flags, output = key >> 8, 0, bytearray()
    for half in (key >> 4 & 0xF, key & 0xF):
        state, flags, symbol = HUFFMAN_TABLE[state * 16 + half]
        if flags & HUFFMAN_FAIL:
            state = _FAILED
            break
        if flags & HUFFMAN_EMIT_SYMBOL:
            output.append(symbol)
    _STEPS[key] = step = state, bytes(output), flags & HUFFMAN_COMPLETE
    return step


_STATIC = HeaderTable.STATIC_TABLE
_KNOWN = len(_STATIC)
_NUMBERS = {name: number for number, (name, _) in reversed([*enumerate(_STATIC, 1)])}

NO_TABLE = b"\x20"
"""Table size update to zero at the start of a connection's first block.

The table is never used, so the peer's limit for it does not matter.
"""
SENSITIVE_HEADERS = {"authorization", "cookie", "proxy-authorization"}
"""Headers that are never indexed, not even by intermediaries."""
MOST = 65_536
"""Limit in bytes for all decoded headers of an answer."""


def encoded(fields: Iterable[tuple[str, str]]) -> bytes:
    return b"".join([_remembered(name, value) for name, value in fields])


def field(name: str, value: str) -> bytes:
    number = _NUMBERS.get(name.encode(), 0)
    prefix = 0x10 if name in SENSITIVE_HEADERS else 0x00
    return _number(prefix, 0x0F, number) + (b"" if number else _text(name)) + _text(value)


# Most headers of an alert equal those of the previous one. Headers that differ each time are soon evicted.
_remembered = lru_cache(maxsize=1024)(field)


def _text(value: str) -> bytes:
    raw = value.encode()
    return _number(0, 0x7F, len(raw)) + raw


def _number(prefix: int, max_prefix: int, value: int) -> bytes:
    if value < max_prefix:
        return bytes((prefix | value,))
    remainder, encoding = value - max_prefix, bytearray((prefix | max_prefix,))
    while remainder > 0x7F:
        encoding.append(remainder & 0x7F | 0x80)
        remainder >>= 7
    encoding.append(remainder)
    return bytes(encoding)


class Decoder:
    """Header decoder of one connection. Blocks must be decoded in the order of their arrival."""

    __slots__ = ("_hpack",)

    def __init__(self) -> None:
        self._hpack = hpack.Decoder(max_header_list_size=MOST)

    def decode(self, block: bytes) -> Sequence[tuple[bytes, bytes]]:
        """Decode a header block. Raises Violation."""
        if (headers := decoded_without_table(block, tableless=not self._hpack.header_table.maxsize)) is not None:
            return headers
        try:
            return [(name, value) for name, value in self._hpack.decode(block, raw=True)]
        except hpack.HPACKError as error:
            raise Violation(COMPRESSION_ERROR, "headers can't be decoded") from error


def decoded_without_table(block: bytes, *, tableless: bool) -> list[tuple[bytes, bytes]] | None:
    """Decode a block that does not use the dynamic table. Return None for other blocks, and for invalid ones.

    With `tableless`, fields marked for indexing are decoded without adding them, as the client's settings request.
    """
    headers: list[tuple[bytes, bytes]] = []
    at, end = 0, len(block)
    try:
        while at < end:
            first = block[at]
            at += 1
            if first & 0x80:
                number = first & 0x7F
                if not 0 < number <= _KNOWN:
                    return None
                headers.append(_STATIC[number - 1])
                continue
            if first & 0x60 and not (tableless and first & 0x40):
                return None  # adds an entry, or changes the size of the table
            number, at = _read(block, at, first, 0x3F if first & 0x40 else 0x0F)
            if number > _KNOWN:
                return None
            name, at = (_STATIC[number - 1][0], at) if number else _string(block, at)
            value, at = _string(block, at)
            if name is None or value is None:
                return None
            headers.append((name, value))
    except IndexError:
        return None
    return headers if at == end else None


def _string(block: bytes, at: int) -> tuple[bytes | None, int]:
    first = block[at]
    length, at = _read(block, at + 1, first, 0x7F)
    raw = block[at : at + length]
    return (huffman_decoded(raw) if first & 0x80 else raw), at + length


def _read(block: bytes, at: int, first: int, max_prefix: int) -> tuple[int, int]:
    """Return the number that begins in the low bits of `first`, and the index after it. Raises IndexError."""
    number, shift = first & max_prefix, 0
    if number < max_prefix:
        return number, at
    while shift <= 28:
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
    raise IndexError
