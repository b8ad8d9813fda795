"""Fast HPACK header encoding and decoding (RFC 7541) without a dynamic table.

The package `hpack` decodes the blocks of peers that use a dynamic table.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import hpack
from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

from notifier.adapters.http2.frames import COMPRESSION_ERROR, Violation

# Huffman decoding takes one byte per step. The package `hpack` takes half a byte, and its decoding took twice as long
# as the rest of a send.

_FAILED_STATE = -1

HuffmanStep = tuple[int, bytes, int]
"""State after a byte, the decoded bytes, and a number that is not zero if the input may end there."""

_HUFFMAN_STEPS: dict[int, HuffmanStep] = {}
"""Steps by previous state and byte, computed on first use. Some hundreds of the 65,536 possible ones ever occur."""


def decode_huffman(encoded: bytes) -> bytes | None:
    """Decode a Huffman-encoded string. Return None if it is invalid."""
    state, may_end, decoded = 0, 1, []
    for byte in encoded:
        key = state << 8 | byte
        state, output, may_end = _HUFFMAN_STEPS.get(key) or _compute_step(key)
        if state == _FAILED_STATE:
            return None
        decoded.append(output)
    return b"".join(decoded) if may_end else None


def _compute_step(key: int) -> HuffmanStep:
    state, flags, output = key >> 8, 0, bytearray()
    for nibble in (key >> 4 & 0xF, key & 0xF):
        state, flags, symbol = HUFFMAN_TABLE[state * 16 + nibble]
        if flags & HUFFMAN_FAIL:
            state = _FAILED_STATE
            break
        if flags & HUFFMAN_EMIT_SYMBOL:
            output.append(symbol)
    _HUFFMAN_STEPS[key] = step = state, bytes(output), flags & HUFFMAN_COMPLETE
    return step


_STATIC_TABLE = HeaderTable.STATIC_TABLE
_STATIC_SIZE = len(_STATIC_TABLE)
_STATIC_INDEX = {name: index for index, (name, _) in reversed([*enumerate(_STATIC_TABLE, 1)])}

TABLE_SIZE_ZERO = b"\x20"
"""Table size update to zero, which is within any limit of the peer. It begins a connection's first block."""
SENSITIVE_HEADERS = {"authorization", "cookie", "proxy-authorization"}
"""Headers that are never indexed, not even by intermediaries."""
MAX_HEADER_BYTES = 65_536
"""Limit for the decoded headers of a block that the package `hpack` decodes."""


def encode_fields(fields: Iterable[tuple[str, str]]) -> bytes:
    return b"".join([_encode_field_cached(name, value) for name, value in fields])


def encode_field(name: str, value: str) -> bytes:
    index = _STATIC_INDEX.get(name.encode(), 0)
    prefix = 0x10 if name in SENSITIVE_HEADERS else 0x00
    return _encode_integer(prefix, 0x0F, index) + (b"" if index else _encode_string(name)) + _encode_string(value)


# Most headers of an alert equal those of the previous alert. Headers that differ each time are soon evicted.
_encode_field_cached = lru_cache(maxsize=1024)(encode_field)


def _encode_string(value: str) -> bytes:
    raw = value.encode()
    return _encode_integer(0, 0x7F, len(raw)) + raw


def _encode_integer(prefix: int, prefix_mask: int, value: int) -> bytes:
    if value < prefix_mask:
        return bytes((prefix | value,))
    remainder, encoding = value - prefix_mask, bytearray((prefix | prefix_mask,))
    while remainder > 0x7F:
        encoding.append(remainder & 0x7F | 0x80)
        remainder >>= 7
    encoding.append(remainder)
    return bytes(encoding)


class Decoder:
    """Header decoder of one connection. Blocks must be decoded in the order of their arrival."""

    __slots__ = ("_hpack",)

    def __init__(self) -> None:
        self._hpack = hpack.Decoder(max_header_list_size=MAX_HEADER_BYTES)

    def decode(self, block: bytes) -> Sequence[tuple[bytes, bytes]]:
        """Decode a header block. Raises Violation."""
        if (headers := decode_without_table(block, tableless=not self._hpack.header_table.maxsize)) is not None:
            return headers
        try:
            return [(name, value) for name, value in self._hpack.decode(block, raw=True)]
        except hpack.HPACKError as error:
            raise Violation(COMPRESSION_ERROR, "headers can't be decoded") from error


def decode_without_table(block: bytes, *, tableless: bool) -> list[tuple[bytes, bytes]] | None:
    """Decode a block that does not use the dynamic table. Return None for other blocks, and for invalid ones.

    With `tableless`, the table has size 0, as our settings request. Fields marked for indexing are then decoded but
    not stored.
    """
    headers: list[tuple[bytes, bytes]] = []
    pos, end = 0, len(block)
    try:
        while pos < end:
            first = block[pos]
            pos += 1
            if first & 0x80:
                index = first & 0x7F
                if not 0 < index <= _STATIC_SIZE:
                    return None
                headers.append(_STATIC_TABLE[index - 1])
                continue
            if first & 0x60 and not (tableless and first & 0x40):
                return None  # adds an entry, or changes the size of the table
            index, pos = _read_integer(block, pos, first, 0x3F if first & 0x40 else 0x0F)
            if index > _STATIC_SIZE:
                return None
            name, pos = (_STATIC_TABLE[index - 1][0], pos) if index else _read_string(block, pos)
            value, pos = _read_string(block, pos)
            if name is None or value is None:
                return None
            headers.append((name, value))
    except IndexError:
        return None
    return headers if pos == end else None


def _read_string(block: bytes, pos: int) -> tuple[bytes | None, int]:
    first = block[pos]
    length, pos = _read_integer(block, pos + 1, first, 0x7F)
    raw = block[pos : pos + length]
    return (decode_huffman(raw) if first & 0x80 else raw), pos + length


def _read_integer(block: bytes, pos: int, first: int, prefix_mask: int) -> tuple[int, int]:
    """Return the integer that begins in the low bits of `first`, and the position after it. Raises IndexError."""
    value, shift = first & prefix_mask, 0
    if value < prefix_mask:
        return value, pos
    while shift <= 28:
        byte = block[pos]
        pos += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, pos
    raise IndexError
