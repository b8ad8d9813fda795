"""The kinds of key that Redis holds for this code."""

from collections.abc import Mapping
from enum import StrEnum


class Kind(StrEnum):
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

TYPES: Mapping[Kind, str] = {
    Kind.ACTIVE: STRING,
    Kind.BACKLOG: STRING,
    Kind.BUCKET: STRING,
    Kind.CAPS: HASH,
    Kind.LINES: HASH,
    Kind.NEWS: STREAM,
    Kind.PACE: HASH,
    Kind.PRESSURE: STRING,
    Kind.PULL: HASH,
    Kind.RECENT: STRING,
    Kind.RECENT_ID: STRING,
    Kind.TABS: HASH,
    Kind.VERSION: STRING,
    Kind.VIEWER: STRING,
}
"""The Redis type of each kind of key; a key of another type is garbage."""


def kind_of(key: str) -> Kind:
    return Kind(key.partition(":")[0].partition(".")[0])
