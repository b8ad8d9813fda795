"""MessagePack encoding of domain values for the store and the log."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

import msgspec

from notifier.domain.audience.bitmap import decode as decode_bits
from notifier.domain.audience.bitmap import encode as encode_bits
from notifier.domain.audience.snapshot import AudienceSnapshot, SnapshotCounts, TierSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.errors import Poison

# Times as milliseconds since 1970, and as microseconds for Cassandra's write timestamps.

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND, _MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)


def to_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    return _EPOCH + ms * _MILLISECOND


def to_us(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


T = TypeVar("T")

_ENCODER = msgspec.msgpack.Encoder()

LATEST_MS = to_ms(datetime.max.replace(tzinfo=UTC))
"""Latest time that a datetime can hold, in milliseconds since 1970."""


def pack(value: object) -> bytes:
    """Encode any domain value that contains no bitmap."""
    return _ENCODER.encode(value)


def unpack(value_type: type[T], blob: bytes) -> T:
    """Raises Poison."""
    try:
        return msgspec.msgpack.decode(blob, type=value_type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Poison(f"Invalid {value_type.__name__}: {error}.") from error


def contains_user(blob: bytes, users: Collection[str]) -> bool:
    """Return whether the encoded value contains one of the user ids. Corrupt bytes are searched as a whole."""
    try:
        return _contains_user(msgspec.msgpack.decode(blob), users)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _contains_any(blob, users)


def _contains_user(value: object, users: Collection[str]) -> bool:
    match value:
        case dict():
            return any(_contains_user(item, users) for pair in value.items() for item in pair)
        case list() | tuple():
            return any(_contains_user(item, users) for item in value)
        case bytes():
            return _contains_any(value, users)
        case str():
            return value in users
        case _:
            return False


def _contains_any(blob: bytes, users: Collection[str]) -> bool:
    return any(user.encode() in blob for user in users)


class SnapshotFacts(msgspec.Struct, array_like=True, frozen=True):
    """Contents of an audience snapshot without its bitmaps, stored in the column `facts`."""

    reached_counts: tuple[int, int, int]
    dormant_count: int
    suppressed_counts: dict[str, int]
    alert_counts: tuple[int, int, int]
    """Number of members to alert, by tier. P2 includes the dormant members."""
    opened_ms: Annotated[int, msgspec.Meta(ge=0, le=LATEST_MS)]
    """Opening time of the burst. It is part of the keys of the burst's inbox rows."""

    @classmethod
    def of_snapshot(cls, snapshot: AudienceSnapshot) -> "SnapshotFacts":
        p0, p1, p2 = (snapshot.reached_count(tier) for tier in TIERS)
        alert_counts = (snapshot.alert_count(Tier.P0), snapshot.alert_count(Tier.P1), snapshot.alert_count(Tier.P2))
        return cls(
            (p0, p1, p2),
            snapshot.dormant_count,
            dict(snapshot.suppressed_counts),
            alert_counts,
            to_ms(snapshot.opened_at),
        )

    @property
    def opened_at(self) -> datetime:
        return from_ms(self.opened_ms)

    def alert_count(self, tier: Tier) -> int:
        return self.alert_counts[TIERS.index(tier)]

    def may_alert(self, tier: Tier) -> bool:
        """Return False only if the snapshot has no member of the tier to alert."""
        return self.alert_count(Tier.P2 if tier is Tier.DORMANT else tier) > 0

    def counts(self, shard: int) -> SnapshotCounts:
        return SnapshotCounts(
            shard=shard,
            reached=dict(zip(TIERS, self.reached_counts, strict=True)),
            dormant=self.dormant_count,
            suppressed=sum(self.suppressed_counts.values()),
        )


class _PackedSnapshot(msgspec.Struct, array_like=True):
    tiers: tuple[bytes, bytes, bytes]
    to_alert: bytes
    facts: SnapshotFacts


def pack_snapshot(snapshot: AudienceSnapshot, facts: SnapshotFacts | None = None) -> bytes:
    """Encode the audience snapshot. Pass `facts` if they are already counted."""
    p0, p1, p2 = (encode_bits(snapshot.tiers[tier]) for tier in TIERS)
    return pack(
        _PackedSnapshot(
            tiers=(p0, p1, p2),
            to_alert=encode_bits(snapshot.to_alert),
            facts=facts or SnapshotFacts.of_snapshot(snapshot),
        )
    )


def unpack_snapshot(shard: int, blob: bytes) -> AudienceSnapshot:
    packed = unpack(_PackedSnapshot, blob)
    return AudienceSnapshot(
        shard=shard,
        opened_at=packed.facts.opened_at,
        tiers=dict(zip(TIERS, map(decode_bits, packed.tiers), strict=True)),
        to_alert=decode_bits(packed.to_alert),
        dormant_count=packed.facts.dormant_count,
        suppressed_counts=packed.facts.suppressed_counts,
    )


def unpack_tier_snapshot(shard: int, blob: bytes, tier: Tier) -> TierSnapshot:
    """Decode one tier of an audience snapshot, without the other bitmaps."""
    packed = unpack(_PackedSnapshot, blob)
    members = decode_bits(packed.tiers[TIERS.index(tier)])
    return TierSnapshot(
        shard=shard, opened_at=packed.facts.opened_at, members=members, alert_count=packed.facts.alert_count(tier)
    )
