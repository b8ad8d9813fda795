"""Domain values as bytes and back: as the store and the log keep them, and as the tweet service writes them."""

from notifier.codec.cloudevents import ReceivedEvent, UpstreamEvent, read_batch, read_event
from notifier.codec.storage import SnapshotFacts, names, pack, pack_seal, unpack, unpack_part, unpack_seal

__all__ = [
    "ReceivedEvent",
    "SnapshotFacts",
    "UpstreamEvent",
    "names",
    "pack",
    "pack_seal",
    "read_batch",
    "read_event",
    "unpack",
    "unpack_part",
    "unpack_seal",
]
