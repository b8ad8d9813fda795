"""Encoding and decoding of domain values, for the store, the log and upstream events."""

from notifier.codec.cloudevents import ReceivedEvent, UpstreamEvent, read_batch, read_event
from notifier.codec.messagepack import (
    SnapshotFacts,
    contains_user,
    pack,
    pack_snapshot,
    unpack,
    unpack_snapshot,
    unpack_tier_snapshot,
)

__all__ = [
    "ReceivedEvent",
    "SnapshotFacts",
    "UpstreamEvent",
    "contains_user",
    "pack",
    "pack_snapshot",
    "read_batch",
    "read_event",
    "unpack",
    "unpack_snapshot",
    "unpack_tier_snapshot",
]
