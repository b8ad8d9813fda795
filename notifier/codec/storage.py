"""Domain values as the store and the log keep them; bytes that can't be read are poison, never a guess."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

import msgspec

from notifier.domain.audience.bitmap import decode as decode_bits
from notifier.domain.audience.bitmap import encode as encode_bits
from notifier.domain.audience.snapshot import Seal, SnapshotCounts, TierSnapshot
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.errors import Poison

# Moments as whole milliseconds since 1970, as every store keeps them, and as Cassandra's microseconds of a write.

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND, _MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)


def to_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    return _EPOCH + ms * _MILLISECOND


def to_us(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


T = TypeVar("T")

_PACK = msgspec.msgpack.Encoder()

LAST_MS = to_ms(datetime.max.replace(tzinfo=UTC))


def pack(value: object) -> bytes:
    """Any value of the domain that holds no bitmap."""
    return _PACK.encode(value)


def unpack(kind: type[T], blob: bytes) -> T:
    try:
        return msgspec.msgpack.decode(blob, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Poison(f"It is no {kind.__name__}: {error}.") from error


def names(blob: bytes, users: Collection[str]) -> bool:
    """Whether the name of one of them is in it; of bytes that nobody can read, whether it is anywhere in them."""
    try:
        return _within(msgspec.msgpack.decode(blob), users)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _anywhere(blob, users)


def _within(value: object, users: Collection[str]) -> bool:
    match value:
        case dict():
            return any(_within(each, users) for pair in value.items() for each in pair)
        case list() | tuple():
            return any(_within(each, users) for each in value)
        case bytes():
            return _anywhere(value, users)
        case str():
            return value in users
        case _:
            return False


def _anywhere(blob: bytes, users: Collection[str]) -> bool:
    return any(user.encode() in blob for user in users)


class SnapshotFacts(msgspec.Struct, array_like=True, frozen=True):
    """What a seal says beside its bitmaps."""

    reached: tuple[int, int, int]
    dormant: int
    suppressed: dict[str, int]
    phones: tuple[int, int, int]
    """How many are alerted once each tier's rows stand."""
    opened_ms: Annotated[int, msgspec.Meta(ge=0, le=LAST_MS)]
    """The opening time that the rows of the shard have in their keys."""

    @classmethod
    def of(cls, seal: Seal) -> "SnapshotFacts":
        p0, p1, p2 = (seal.reached(tier) for tier in TIERS)
        rung = (seal.phones(Tier.P0), seal.phones(Tier.P1), seal.phones(Tier.P2))
        return cls((p0, p1, p2), seal.dormant, dict(seal.suppressed), rung, to_ms(seal.opened_at))

    @property
    def opened_at(self) -> datetime:
        return from_ms(self.opened_ms)

    def phones_of(self, tier: Tier) -> int:
        return self.phones[TIERS.index(tier)]

    def may_alert(self, tier: Tier) -> bool:
        """Return whether somebody of the tier may be alerted. P2's number counts the dormant, too."""
        return self.phones_of(Tier.P2 if tier is Tier.DORMANT else tier) > 0

    def tally(self, shard: int) -> SnapshotCounts:
        return SnapshotCounts(
            shard=shard,
            reached=dict(zip(TIERS, self.reached, strict=True)),
            dormant=self.dormant,
            suppressed=sum(self.suppressed.values()),
        )


class _PackedSeal(msgspec.Struct, array_like=True):
    tiers: tuple[bytes, bytes, bytes]
    push: bytes
    facts: SnapshotFacts


def pack_seal(seal: Seal, facts: SnapshotFacts | None = None) -> bytes:
    """Pack the seal with its facts, which are counted unless the caller has them."""
    p0, p1, p2 = (encode_bits(seal.tiers[tier]) for tier in TIERS)
    return pack(_PackedSeal(tiers=(p0, p1, p2), push=encode_bits(seal.push), facts=facts or SnapshotFacts.of(seal)))


def unpack_seal(shard: int, blob: bytes) -> Seal:
    packed = unpack(_PackedSeal, blob)
    return Seal(
        shard=shard,
        opened_at=packed.facts.opened_at,
        tiers=dict(zip(TIERS, map(decode_bits, packed.tiers), strict=True)),
        push=decode_bits(packed.push),
        dormant=packed.facts.dormant,
        suppressed=packed.facts.suppressed,
    )


def unpack_part(shard: int, blob: bytes, tier: Tier) -> TierSnapshot:
    """Of one tier; the other bitmaps stay as they are."""
    packed = unpack(_PackedSeal, blob)
    members = decode_bits(packed.tiers[TIERS.index(tier)])
    return TierSnapshot(
        shard=shard, opened_at=packed.facts.opened_at, members=members, phones=packed.facts.phones_of(tier)
    )
