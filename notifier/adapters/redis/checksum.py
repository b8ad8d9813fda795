"""The checksum in front of every value in Redis: it tells a value of ours from garbage.

It covers the key and the field too, so that a value copied to another place is garbage as well. `lua/checksum.lua`
makes the same one.
"""

from collections.abc import Mapping
from hashlib import sha1

SIZE = 8
"""Hexadecimal digits: one in four billion random values passes."""


def checksum(key: str, value: bytes = b"", field: str = "") -> bytes:
    # SHA-1 because scripts can compute it. It protects from accidents, not from attackers.
    covered = b"\0".join((key.encode(), field.encode(), value))
    return sha1(covered, usedforsecurity=False).hexdigest()[:SIZE].encode()


def wrap(key: str, value: bytes, field: str = "") -> bytes:
    return checksum(key, value, field) + value


def unwrap(key: str, held: bytes, field: str = "") -> bytes | None:
    """Return the value, or None for garbage."""
    value = held[SIZE:]
    return value if held[:SIZE] == checksum(key, value, field) else None


def unwrap_fields(key: str, held: Mapping[str, bytes | None]) -> tuple[Mapping[str, bytes | None], Mapping[str, bytes]]:
    """Return the values of a hash by field, None where there is none; and the garbage by field."""
    values = {field: None if each is None else unwrap(key, each, field) for field, each in held.items()}
    return values, {field: each for field, each in held.items() if each is not None and values[field] is None}
