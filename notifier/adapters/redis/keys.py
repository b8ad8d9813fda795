"""The kinds of key that Redis holds for this code."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha1
from importlib.resources import files

from prometheus_client import Counter


class KeyKind(StrEnum):
    """What a key or a channel begins with, up to its first colon or dot; also a label of the garbage metric."""

    ACTIVE = "active"
    BACKLOG = "backlog"
    BUCKET = "bucket"
    CAPS = "caps"
    LINES = "lines"
    NEWS = "news"
    VERSION = "version"
    VIEWER = "viewer"
    LIVE = "live"
    """The channels of the live bus, which have no key."""
    PACE = "pace"
    PRESSURE = "pressure"
    PULL = "pull"
    RECENT = "recent"
    RECENT_ID = "recent-id"
    TABS = "tabs"

    def key(self, *rest: object) -> str:
        return ":".join([self, *map(str, rest)])


STRING, HASH, STREAM = "string", "hash", "stream"

TYPES: Mapping[KeyKind, str] = {
    KeyKind.ACTIVE: STRING,
    KeyKind.BACKLOG: STRING,
    KeyKind.BUCKET: STRING,
    KeyKind.CAPS: HASH,
    KeyKind.LINES: HASH,
    KeyKind.NEWS: STREAM,
    KeyKind.PACE: HASH,
    KeyKind.PRESSURE: STRING,
    KeyKind.PULL: HASH,
    KeyKind.RECENT: STRING,
    KeyKind.RECENT_ID: STRING,
    KeyKind.TABS: HASH,
    KeyKind.VERSION: STRING,
    KeyKind.VIEWER: STRING,
}
"""The Redis type of each kind of key; a key of another type is garbage."""


def kind_of(key: str) -> KeyKind:
    return KeyKind(key.partition(":")[0].partition(".")[0])


# Garbage in Redis is counted by kind of key, so that an operator learns that something else writes there.


class GarbageCount:
    def __init__(self, counter: Counter | None = None) -> None:
        """Without a counter nothing is counted: nobody reads the metrics of a command that looks at a system once."""
        self._counter = counter

    def add(self, kind: KeyKind, times: int = 1) -> None:
        if self._counter is not None and times:
            self._counter.labels(kind).inc(times)


# The checksum in front of every value in Redis: it tells a value of ours from garbage.
#
# It covers the key and the field too, so that a value copied to another place is garbage as well. `lua/checksum.lua`
# makes the same one.

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


# The Lua scripts, read from their files.

CHECKSUM = "checksum"
"""The file that precedes a script which reads or writes values."""


@dataclass(frozen=True, slots=True)
class LuaScript:
    """A script on one key. It returns an array: how much garbage it found and discarded, and behind it its answer.

    It may be sent twice: a server that has forgotten a script says so, and runs nothing.
    """

    text: str
    digest: str

    @classmethod
    def named(cls, *names: str) -> "LuaScript":
        """Read a script from its files, in this order."""
        folder = files("notifier.adapters.redis") / "lua"
        text = "".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)
        return cls(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
