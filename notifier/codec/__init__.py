"""Domain values as bytes and back: as the store and the log keep them, and as the tweet service writes them."""

from notifier.codec.cloudevents import read_events, speaks_of
from notifier.codec.stored import (
    Facts,
    names,
    pack,
    pack_seal,
    unpack,
    unpack_part,
    unpack_seal,
)
from notifier.codec.written import Told

__all__ = [
    "Facts",
    "Told",
    "names",
    "pack",
    "pack_seal",
    "read_events",
    "speaks_of",
    "unpack",
    "unpack_part",
    "unpack_seal",
]
