"""Domain values as bytes and back: as the store and the log keep them, and as the tweet service writes them."""

from notifier.codec.cloudevents import Told, read_events, speaks_of
from notifier.codec.storage import Facts, names, pack, pack_seal, unpack, unpack_part, unpack_seal

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
