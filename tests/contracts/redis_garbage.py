"""Garbage for Redis keys: values of each type, and damaged values."""

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from notifier.adapters.redis.keys_checksums_lua_scripts import HASH, STRING, KeyKind, kind_of

Garble = Callable[[], object]

STRINGS: Mapping[str, bytes] = {
    "random bytes": bytes((number * 167 + 13) % 256 for number in range(64)),
    "not UTF-8": b"\xff\xfe\x00",
    "empty": b"",
    "text": b"garbage",
    "a digit": b"1",
    "a negative number": b"-1",
    "a huge integer": b"9" * 400,
    "nan": b"nan",
    "infinity": b"-inf",
    "long": bytes(range(256)) * 400,
    "a list that looks right": struct.pack("<3d", 0.0, 1.0, 1.0),
    "a list of zeros": bytes(24),
    "a list of no numbers": struct.pack("<3d", math.nan, math.inf, -math.inf),
    "a list of negative numbers": struct.pack("<3d", -1.0, -1.0, -1.0),
    "a list cut off": struct.pack("<3d", 0.0, 1.0, 1.0)[:-3],
}

FIELDS = {
    name: STRINGS[name] for name in ("random bytes", "empty", "a digit", "a huge integer", "a list of no numbers")
}
"""A subset, because hashes have many fields."""


def replacements(client: Any, key: str) -> Iterator[tuple[str, Garble]]:
    """Yield ways to replace the key with a value of each type; `client` belongs to redis-py or to a cluster."""

    def place(write: Garble) -> None:
        client.delete(key)
        write()

    for name, value in STRINGS.items():
        yield f"string: {name}", partial(place, partial(client.set, key, value))
    yield "list", partial(place, partial(client.rpush, key, b"\xff", "garbage"))
    yield "set", partial(place, partial(client.sadd, key, b"\xff", "garbage"))
    yield "zset", partial(place, partial(client.zadd, key, {b"\xff": 1.5, b"garbage": math.inf}))
    yield "hash", partial(place, partial(client.hset, key, mapping={b"\xff": b"\xff", b"garbage": b"garbage"}))
    yield "stream", partial(place, partial(client.xadd, key, {"garbage": b"\xff"}))


def corruptions(client: Any, key: str) -> Iterator[tuple[str, Garble]]:
    """Yield ways to damage the current values of the key, and to add fields to a hash."""
    kind = client.type(key).decode()
    if kind == HASH:
        yield from _hash_corruptions(client, key)
    elif kind == STRING and not is_bitmap(key):
        for name, garbage in _damaged(client.get(key)).items():
            yield f"string: {name}", partial(client.set, key, garbage)


def _hash_corruptions(client: Any, key: str) -> Iterator[tuple[str, Garble]]:
    current: Mapping[bytes, bytes] = client.hgetall(key)
    for field, value in current.items():
        for name, garbage in {**FIELDS, **_damaged(value)}.items():
            yield f"{field!r}: {name}", partial(client.hset, key, field, garbage)
        for other_field in current.keys() - {field}:
            yield f"{field!r}: the value of {other_field!r}", partial(client.hset, key, field, current[other_field])
    for field in (b"\xff\xfe", b"garbage", b""):
        yield f"one more field: {field!r}", partial(client.hset, key, field, b"\xff garbage")


def is_bitmap(key: str) -> bool:
    """Return whether all bytes after the header are valid, because the value is a bitmap."""
    return kind_of(key) is KeyKind.ACTIVITY and key.partition(":")[2] != "rolled-up"


def _damaged(value: bytes) -> Mapping[str, bytes]:
    middle = len(value) // 2
    return {
        "without its last byte": value[:-1],
        "without its last eight bytes": value[:-8],
        "without its first byte": value[1:],
        "twice": value * 2,
        "one bit flipped": value[:middle] + bytes([value[middle] ^ 1]) + value[middle + 1 :],
    }
