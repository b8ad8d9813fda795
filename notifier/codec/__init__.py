"""Encoding and decoding of domain values, for the store, the log and upstream events."""

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
