"""Packed letters (the Huffman code of HPACK), unpacked a byte at a time, where the package `hpack` takes half ones.

Providers pack the id that they answer with, and to unpack it took twice as long as all the rest of a send.
"""

from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE

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
