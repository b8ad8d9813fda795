"""Redis key kinds, value checksums and Lua script loading."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha1
from importlib.resources import files

from prometheus_client import Counter


class KeyKind(StrEnum):
    """Prefix of a key or channel, up to its first colon or dot. Also a label of the garbage metric."""

    ACTIVITY = "activity"
    """Bitmaps of the users who were active in an hour, and the time of the last roll-up."""
    ALERT_HISTORY = "alert-history"
    """Alerts that count toward the frequency caps, by block of users."""
    BACKLOG = "backlog"
    """Backlog of each pool, as reported by the dispatcher."""
    BACKPRESSURE = "backpressure"
    """Level of backpressure."""
    BURST_STREAM = "burst-stream"
    """Stream of published bursts."""
    INBOX_LATENCY = "inbox-latency"
    """99th percentile of the time of inbox reads, by process."""
    LIVE = "live"
    """Channels of the live bus, which are no keys."""
    OPEN_CIRCUITS = "open-circuits"
    """Open circuit breakers, by line of a provider."""
    PROVIDER_RATE = "provider-rate"
    """Token bucket of a provider's rate limit."""
    PULL_INDEX = "pull-index"
    """Newest bursts of many subjects: one part of the pull index."""
    RECENT_EVENT = "recent-event"
    """Hash of an accepted event's content, by source and id."""
    RECENT_EVENT_ID = "recent-event-id"
    """Set if an event with this id was accepted from any source."""
    REMEMBERED_VIEWER = "remembered-viewer"
    """Facts, and perhaps the first page, of a VIP, shared between processes."""
    TOKEN_BUCKET = "token-bucket"
    """Tokens that are left in a bucket: of a request limit, or of an author's cap."""
    VIEWER_VERSION = "viewer-version"
    """Version of viewers' facts, by scope."""

    def key(self, *parts: object) -> str:
        return ":".join([self, *map(str, parts)])


STRING, HASH, STREAM = "string", "hash", "stream"

KEY_TYPES: Mapping[KeyKind, str] = {
    KeyKind.ACTIVITY: STRING,
    KeyKind.ALERT_HISTORY: HASH,
    KeyKind.BACKLOG: STRING,
    KeyKind.BACKPRESSURE: STRING,
    KeyKind.BURST_STREAM: STREAM,
    KeyKind.INBOX_LATENCY: HASH,
    KeyKind.OPEN_CIRCUITS: HASH,
    KeyKind.PROVIDER_RATE: HASH,
    KeyKind.PULL_INDEX: HASH,
    KeyKind.RECENT_EVENT: STRING,
    KeyKind.RECENT_EVENT_ID: STRING,
    KeyKind.REMEMBERED_VIEWER: STRING,
    KeyKind.TOKEN_BUCKET: STRING,
    KeyKind.VIEWER_VERSION: STRING,
}
"""Redis type of each kind of key. A key of another type is garbage."""


def kind_of(key: str) -> KeyKind:
    return KeyKind(key.partition(":")[0].partition(".")[0])


# Garbage metric. Garbage is a value that this project did not write, for example one of another program.


class GarbageCount:
    def __init__(self, counter: Counter | None = None) -> None:
        # One-shot commands pass no counter: their metrics are never scraped.
        self._counter = counter

    def add(self, kind: KeyKind, count: int = 1) -> None:
        if self._counter is not None and count:
            self._counter.labels(kind).inc(count)


# Checksum in front of most values, to detect garbage.
#
# The checksum also covers the key and the field: a value that was copied to another key or field is garbage.
# `lua/checksum.lua` computes the same checksum.

CHECKSUM_LENGTH = 8
"""Hexadecimal digits of a checksum. One in four billion random values passes."""


def checksum(key: str, value: bytes = b"", field: str = "") -> bytes:
    # SHA-1 because Lua scripts can compute it. It protects against accidents, not against attackers.
    covered = b"\0".join((key.encode(), field.encode(), value))
    return sha1(covered, usedforsecurity=False).hexdigest()[:CHECKSUM_LENGTH].encode()


def wrap(key: str, value: bytes, field: str = "") -> bytes:
    return checksum(key, value, field) + value


def unwrap(key: str, stored: bytes, field: str = "") -> bytes | None:
    """Return the value, or None for garbage."""
    value = stored[CHECKSUM_LENGTH:]
    return value if stored[:CHECKSUM_LENGTH] == checksum(key, value, field) else None


def unwrap_fields(
    key: str, stored: Mapping[str, bytes | None]
) -> tuple[Mapping[str, bytes | None], Mapping[str, bytes]]:
    """Return the values of a hash by field (None if absent or garbage), and the garbage by field."""
    values = {field: None if packed is None else unwrap(key, packed, field) for field, packed in stored.items()}
    return values, {field: packed for field, packed in stored.items() if packed is not None and values[field] is None}


# Lua scripts, read from their files.

CHECKSUM_FILE = "checksum"
"""Lua file to load in front of a script that reads or writes values with checksums."""


@dataclass(frozen=True, slots=True)
class LuaScript:
    """A Lua script that returns an array: the count of garbage, then the answer, if there is one.

    A call by digest has no effect on a server that does not know the script, so the call may be repeated with the text.
    """

    text: str
    digest: str

    @classmethod
    def load(cls, *names: str) -> "LuaScript":
        """Read a script from its files, concatenated in this order."""
        folder = files("notifier.adapters.redis") / "lua"
        text = "".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)
        return cls(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
