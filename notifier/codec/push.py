"""Encoding of devices, rate limits, alert history and send logs for stores and log."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from math import isfinite
from struct import Struct, error

import msgspec

from notifier.codec.storage import from_ms, pack, to_ms, unpack
from notifier.domain.audience.bitmap import SHARD_MEMBERS, decode, encode, from_offsets, nobody, shard_of
from notifier.domain.errors import Poison
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import (
    Address,
    ApnsEnvironment,
    AppleToken,
    Device,
    DeviceId,
    DeviceRecord,
    DeviceWord,
    FirebaseInstallation,
    FirebaseToken,
    Gone,
    WebSubscription,
)
from notifier.domain.push.frequency_cap import CountedAlert, History, Rung
from notifier.domain.push.rate_limit import Pace
from notifier.domain.push.send_log import AlertOutcome, FailedAttempt, Olders, Try, Why, Window
from notifier.domain.token_bucket import TokenBucket
from notifier.domain.users.account_preferences import Asleep, Unwanted
from notifier.ports.push import Spare


class _Apple(msgspec.Struct, array_like=True, tag="apns"):
    token: str
    topic: str
    environment: ApnsEnvironment


class _FirebaseToken(msgspec.Struct, array_like=True, tag="token"):
    token: str


class _FirebaseInstallation(msgspec.Struct, array_like=True, tag="fid"):
    fid: str


class _Web(msgspec.Struct, array_like=True, tag="web"):
    endpoint: str
    key: bytes
    secret: bytes


class _Told(msgspec.Struct, array_like=True):
    """Device registration without its member and its time."""

    address: _Apple | _FirebaseToken | _FirebaseInstallation | _Web
    locale: str
    time_zone: str


class _Word(msgspec.Struct, array_like=True):
    member: Member
    at: int
    id: DeviceId
    platform: Platform
    told: _Told | None
    """Registration of the device. None: the device was removed."""


class _Record(msgspec.Struct, array_like=True):
    word: _Word | None
    known: bool
    anew: int | None


def pack_told(device: Device) -> bytes:
    return pack(_told(device))


def unpack_told(member: Member, told: bytes, at: int) -> Device:
    """Decode a device that was registered at the given millisecond. Raises Poison."""
    return _device(member, unpack(_Told, told), at)


def pack_device_record(record: DeviceRecord) -> bytes:
    change = None if record.word is None else _word(record.word)
    return pack(_Record(change, record.known, record.anew))


def unpack_device_record(blob: bytes) -> DeviceRecord:
    """Raises Poison."""
    record = unpack(_Record, blob)
    change = None if record.word is None else _said(record.word)
    return DeviceRecord(word=change, known=record.known, anew=record.anew)


def _word(word: DeviceWord) -> _Word:
    match word:
        case Device():
            return _Word(word.member, to_ms(word.registered_at), word.id, word.platform, _told(word))
        case Gone():
            return _Word(word.member, to_ms(word.at), word.id, word.platform, None)


def _said(word: _Word) -> DeviceWord:
    if word.told is not None:
        return _device(word.member, word.told, word.at)
    return Gone(id=word.id, platform=word.platform, member=word.member, at=from_ms(word.at))


def _device(member: Member, told: _Told, at: int) -> Device:
    return Device(
        member=member,
        address=_address(told.address),
        locale=told.locale,
        time_zone=told.time_zone,
        registered_at=from_ms(at),
    )


def _told(device: Device) -> _Told:
    return _Told(_packed(device.address), device.locale, device.time_zone)


def _packed(address: Address) -> _Apple | _FirebaseToken | _FirebaseInstallation | _Web:
    match address:
        case AppleToken():
            return _Apple(address.token, address.topic, address.environment)
        case FirebaseToken():
            return _FirebaseToken(address.token)
        case FirebaseInstallation():
            return _FirebaseInstallation(address.fid)
        case WebSubscription():
            return _Web(address.endpoint, address.key, address.secret)


def _address(packed: _Apple | _FirebaseToken | _FirebaseInstallation | _Web) -> Address:
    match packed:
        case _Apple():
            return AppleToken(token=packed.token, topic=packed.topic, environment=packed.environment)
        case _FirebaseToken():
            return FirebaseToken(token=packed.token)
        case _FirebaseInstallation():
            return FirebaseInstallation(fid=packed.fid)
        case _Web():
            return WebSubscription(endpoint=packed.endpoint, key=packed.key, secret=packed.secret)


# Alert limits as Redis keeps them: 40 bytes per provider rate, and 24 bytes per alert in a member's history.

_PACE = Struct("<ddqqq")
_RUNG = Struct("<q8s8s")


def pack_pace(pace: Pace) -> bytes:
    return _PACE.pack(
        pace.bucket.tokens,
        pace.share,
        to_ms(pace.bucket.at),
        to_ms(pace.since),
        0 if pace.cut_at is None else to_ms(pace.cut_at),
    )


def unpack_pace(blob: bytes) -> Pace:
    try:
        tokens, share, at, since, cut_at = _PACE.unpack(blob)
        pace = Pace(
            bucket=TokenBucket(tokens=tokens, at=from_ms(at)),
            share=share,
            since=from_ms(since),
            cut_at=from_ms(cut_at) if cut_at else None,
        )
    except (error, OverflowError) as cause:
        raise Poison(f"It is no pace: {cause}.") from cause
    if not (isfinite(tokens) and 0 < share <= 1):
        raise Poison(f"It is no pace: {tokens} tokens and a share of {share}.")
    return pace


def pack_history(history: History) -> bytes:
    return b"".join(_RUNG.pack(to_ms(rung.at), rung.cause.burst, rung.cause.tweet) for rung in history)


def unpack_history(blob: bytes) -> History:
    try:
        return [_rung(blob[at : at + _RUNG.size]) for at in range(0, len(blob), _RUNG.size)]
    except (error, OverflowError) as cause:
        raise Poison(f"It is no history of alerts: {cause}.") from cause


@lru_cache(maxsize=4096)
def _rung(packed: bytes) -> Rung:
    """Decode one alert, cached: thousands of members have the same one, and decoding each costs ten times as much."""
    at, burst, tweet = _RUNG.unpack(packed)
    return Rung(at=from_ms(at), cause=CountedAlert(burst=burst, tweet=tweet))


# Batches of the send log: the intent is written before sending, the outcome (what was not accepted) afterwards.


class _Try(msgspec.Struct, array_like=True):
    device: DeviceId
    member: Member
    first: datetime
    tries: int
    away: int


class _Missed(msgspec.Struct, array_like=True):
    tried: _Try
    fate: AlertOutcome
    at: datetime | None
    reason: str


class _Intent(msgspec.Struct, array_like=True):
    at: datetime
    people: bytes
    away: tuple[tuple[Olders, bytes], ...]
    silent: dict[Why, bytes]
    again: tuple[_Try, ...]


class _Outcome(msgspec.Struct, array_like=True):
    missed: tuple[_Missed, ...]


def pack_intent(window: Window) -> bytes:
    return pack(
        _Intent(
            at=window.at,
            people=encode(window.people),
            away=tuple((olders, encode(bits)) for olders, bits in window.away.items()),
            silent={why: encode(bits) for why, bits in window.silent.items()},
            again=tuple(map(_try, window.again)),
        )
    )


def pack_outcome(window: Window) -> bytes:
    """Encode the outcome of a batch that was sent. It is also written if every alert was accepted."""
    return pack(_Outcome(tuple(map(_packed_missed, window.missed or ()))))


def unpack_window(n: int, intent: bytes, outcome: bytes | None) -> Window:
    """Decode one batch; `outcome` is None while it is being sent. Raises Poison."""
    unpacked = unpack(_Intent, intent)
    return Window(
        n=n,
        at=unpacked.at,
        people=decode(unpacked.people),
        away={olders: decode(blob) for olders, blob in unpacked.away},
        silent={why: decode(blob) for why, blob in unpacked.silent.items()},
        again=tuple(map(_tried, unpacked.again)),
        missed=None if outcome is None else tuple(map(_missed, unpack(_Outcome, outcome).missed)),
    )


def _packed_missed(one: FailedAttempt) -> _Missed:
    return _Missed(_try(one.tried), one.fate, one.at, one.reason)


def _try(one: Try) -> _Try:
    return _Try(one.device, one.member, one.first, one.tries, one.away)


def _tried(one: _Try) -> Try:
    return Try(device=one.device, member=one.member, first=one.first, tries=one.tries, away=one.away)


def _missed(one: _Missed) -> FailedAttempt:
    return FailedAttempt(tried=_tried(one.tried), fate=one.fate, at=one.at, reason=one.reason)


# Push suppression by shard: members who never get the alert, and members who are in quiet hours.


def spares(
    shards: Collection[int], never: Iterable[Member], said: Iterable[tuple[Member, Unwanted | Asleep]]
) -> Mapping[int, Spare]:
    """Return the push suppression of each shard.

    `never` has members who never get an alert for the burst. `said` has members suppressed by account preferences.
    Permanent suppression wins over quiet hours.
    """
    out: Mapping[int, set[int]] = {shard: set() for shard in shards}
    asleep: Mapping[int, dict[int, datetime]] = {shard: {} for shard in shards}
    for member in never:
        out[shard_of(member)].add(member % SHARD_MEMBERS)
    for member, why in said:
        match why:
            case Unwanted():
                out[shard_of(member)].add(member % SHARD_MEMBERS)
            case Asleep(until=until):
                asleep[shard_of(member)][member % SHARD_MEMBERS] = until
    return {shard: _spare(out[shard], asleep[shard]) for shard in shards}


def _spare(never: Collection[int], asleep: Mapping[int, datetime]) -> Spare:
    only_asleep = {offset: until for offset, until in asleep.items() if offset not in never}
    return Spare(
        never=from_offsets(never) if never else nobody(),
        asleep=from_offsets(only_asleep) if only_asleep else nobody(),
        until=min(only_asleep.values(), default=None),
    )
