"""Headers to bytes and back (HPACK, RFC 7541), cheaply: we enter nothing in any table, and few peers do."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import hpack
from hpack.table import HeaderTable

from notifier.adapters.http2.frames import COMPRESSION_ERROR, Violation

_STATIC = HeaderTable.STATIC_TABLE
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
        if (found := plain(block)) is not None:
            return found
        try:
            return [(name, value) for name, value in self._hpack.decode(block, raw=True)]
        except hpack.HPACKError as error:
            raise Violation(COMPRESSION_ERROR, "headers that can't be read") from error


def plain(block: bytes) -> list[tuple[bytes, bytes]] | None:
    """What a block says that neither uses a table of the connection nor packs its letters, whatever that table holds;
    None of another one, and of a broken one."""
    found: list[tuple[bytes, bytes]] = []
    at, end = 0, len(block)
    try:
        while at < end:
            first = block[at]
            at += 1
            if first & 0x80:
                if not 0 < (number := first & 0x7F) <= len(_STATIC):
                    return None
                found.append(_STATIC[number - 1])
                continue
            if first & 0x60:  # enters something, or changes the table's size
                return None
            number = first & 0x0F
            if number == 0x0F:
                number += block[at]
                at += 1
                if number > len(_STATIC):
                    return None
            if number:
                name = _STATIC[number - 1][0]
            else:
                length = block[at]
                at += 1
                if length >= 0x7F:  # packed, or longer than any name that there is
                    return None
                name = block[at : at + length]
                at += length
            length = block[at]
            at += 1
            if length & 0x80:
                return None
            if length == 0x7F:
                length, at = _length(block, at)
            found.append((name, block[at : at + length]))
            at += length
    except IndexError:
        return None
    return found if at == end else None


def _length(block: bytes, at: int) -> tuple[int, int]:
    """Of a text of 127 bytes and more."""
    length, shift = 0x7F, 0
    while True:
        piece = block[at]
        at += 1
        length += (piece & 0x7F) << shift
        shift += 7
        if piece < 0x80 or shift > 28:
            return length, at
