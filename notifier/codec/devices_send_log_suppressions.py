"""Encoding of devices, alert limits and send logs; computation of push suppressions."""

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from math import isfinite

import msgspec

from notifier.codec.account_preferences import EncodedPreferences, decode_preferences
from notifier.codec.messagepack import from_ms, pack, to_ms, unpack
from notifier.domain.audience.bitmap import SHARD_MEMBERS, decode, encode, from_offsets, no_members, shard_of
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import Poison
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import (
    Address,
    ApnsEnvironment,
    AppleToken,
    Device,
    DeviceId,
    DeviceRecord,
    DeviceRemoval,
    DeviceUpdate,
    FirebaseInstallation,
    FirebaseToken,
    WebSubscription,
)
from notifier.domain.push.frequency_cap import AlertCause, AlertHistory, SentAlert
from notifier.domain.push.rate_limit import ProviderRate
from notifier.domain.push.send_log import (
    AlertOutcome,
    AttemptState,
    FailedAttempt,
    OlderBursts,
    SendBatch,
    SilentReason,
)
from notifier.domain.token_bucket import TokenBucket
from notifier.domain.users.account_preferences import AlertDeferred, AlertSuppressed, suppression_of
from notifier.domain.users.subject_preferences import ALWAYS, Volume
from notifier.ports.push import PushSuppression


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


class _Registration(msgspec.Struct, array_like=True):
    """Device registration without its member and its time."""

    address: _Apple | _FirebaseToken | _FirebaseInstallation | _Web
    locale: str
    time_zone: str


class _Update(msgspec.Struct, array_like=True):
    member: Member
    at_ms: int
    id: DeviceId
    platform: Platform
    registration: _Registration | None
    """None: the device was removed."""


class _Record(msgspec.Struct, array_like=True):
    update: _Update | None
    is_known_holder: bool
    rebuild_shard: int | None


def pack_registration(device: Device) -> bytes:
    return pack(_registration(device))


def unpack_registration(member: Member, registration: bytes, at_ms: int) -> Device:
    """Raises Poison."""
    return _device(member, unpack(_Registration, registration), at_ms)


def pack_device_record(record: DeviceRecord) -> bytes:
    update = None if record.update is None else _packed_update(record.update)
    return pack(_Record(update, record.is_known_holder, record.rebuild_shard))


def unpack_device_record(blob: bytes) -> DeviceRecord:
    """Raises Poison."""
    record = unpack(_Record, blob)
    update = None if record.update is None else _unpacked_update(record.update)
    return DeviceRecord(update=update, is_known_holder=record.is_known_holder, rebuild_shard=record.rebuild_shard)


def _packed_update(update: DeviceUpdate) -> _Update:
    match update:
        case Device():
            return _Update(
                update.member, to_ms(update.registered_at), update.id, update.platform, _registration(update)
            )
        case DeviceRemoval():
            return _Update(update.member, to_ms(update.at), update.id, update.platform, None)


def _unpacked_update(update: _Update) -> DeviceUpdate:
    if update.registration is not None:
        return _device(update.member, update.registration, update.at_ms)
    return DeviceRemoval(id=update.id, platform=update.platform, member=update.member, at=from_ms(update.at_ms))


def _device(member: Member, registration: _Registration, at_ms: int) -> Device:
    return Device(
        member=member,
        address=_unpacked_address(registration.address),
        locale=registration.locale,
        time_zone=registration.time_zone,
        registered_at=from_ms(at_ms),
    )


def _registration(device: Device) -> _Registration:
    return _Registration(_packed_address(device.address), device.locale, device.time_zone)


def _packed_address(address: Address) -> _Apple | _FirebaseToken | _FirebaseInstallation | _Web:
    match address:
        case AppleToken():
            return _Apple(address.token, address.topic, address.environment)
        case FirebaseToken():
            return _FirebaseToken(address.token)
        case FirebaseInstallation():
            return _FirebaseInstallation(address.fid)
        case WebSubscription():
            return _Web(address.endpoint, address.key, address.secret)


def _unpacked_address(packed: _Apple | _FirebaseToken | _FirebaseInstallation | _Web) -> Address:
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

_RATE = struct.Struct("<ddqqq")
_SENT_ALERT = struct.Struct("<q8s8s")


def pack_rate(rate: ProviderRate) -> bytes:
    return _RATE.pack(
        rate.bucket.tokens,
        rate.share,
        to_ms(rate.bucket.at),
        to_ms(rate.since),
        0 if rate.cut_at is None else to_ms(rate.cut_at),
    )


def unpack_rate(blob: bytes) -> ProviderRate:
    try:
        tokens, share, at, since, cut_at = _RATE.unpack(blob)
        rate = ProviderRate(
            bucket=TokenBucket(tokens=tokens, at=from_ms(at)),
            share=share,
            since=from_ms(since),
            cut_at=from_ms(cut_at) if cut_at else None,
        )
    except (struct.error, OverflowError) as cause:
        raise Poison(f"Invalid rate-limit state: {cause}.") from cause
    if not (isfinite(tokens) and 0 < share <= 1):
        raise Poison(f"Invalid rate-limit state: {tokens} tokens and a share of {share}.")
    return rate


def pack_history(history: AlertHistory) -> bytes:
    return b"".join(_SENT_ALERT.pack(to_ms(alert.at), alert.cause.burst, alert.cause.tweet) for alert in history)


def unpack_history(blob: bytes) -> AlertHistory:
    try:
        return [
            _sent_alert(blob[offset : offset + _SENT_ALERT.size]) for offset in range(0, len(blob), _SENT_ALERT.size)
        ]
    except (struct.error, OverflowError) as cause:
        raise Poison(f"Invalid history of alerts: {cause}.") from cause


@lru_cache(maxsize=4096)
def _sent_alert(packed: bytes) -> SentAlert:
    """Decode one alert, cached. Thousands of members share an alert, and a cache hit takes a tenth of the time."""
    at, burst, tweet = _SENT_ALERT.unpack(packed)
    return SentAlert(at=from_ms(at), cause=AlertCause(burst=burst, tweet=tweet))


# Batches of the send log: the intent is written before sending, the outcome (failed attempts) afterwards.


class _AttemptState(msgspec.Struct, array_like=True):
    device: DeviceId
    member: Member
    first_at: datetime
    failed_attempts: int
    late_burst_count: int


class _Failure(msgspec.Struct, array_like=True):
    state: _AttemptState
    outcome: AlertOutcome
    at: datetime | None
    reason: str


class _Intent(msgspec.Struct, array_like=True):
    at: datetime
    members: bytes
    summaries: tuple[tuple[OlderBursts, bytes], ...]
    silent: dict[SilentReason, bytes]
    retries: tuple[_AttemptState, ...]


class _Outcome(msgspec.Struct, array_like=True):
    failures: tuple[_Failure, ...]


def pack_intent(batch: SendBatch) -> bytes:
    return pack(
        _Intent(
            at=batch.at,
            members=encode(batch.members),
            summaries=tuple((older_bursts, encode(bits)) for older_bursts, bits in batch.summaries.items()),
            silent={reason: encode(bits) for reason, bits in batch.silent.items()},
            retries=tuple(map(_packed_attempt, batch.retries)),
        )
    )


def pack_outcome(batch: SendBatch) -> bytes:
    return pack(_Outcome(tuple(map(_packed_failure, batch.failures or ()))))


def unpack_batch(number: int, intent: bytes, outcome: bytes | None) -> SendBatch:
    """Decode one batch; `outcome` is None for an open batch. Raises Poison."""
    unpacked = unpack(_Intent, intent)
    return SendBatch(
        number=number,
        at=unpacked.at,
        members=decode(unpacked.members),
        summaries={older_bursts: decode(blob) for older_bursts, blob in unpacked.summaries},
        silent={reason: decode(blob) for reason, blob in unpacked.silent.items()},
        retries=tuple(map(_unpacked_attempt, unpacked.retries)),
        failures=None if outcome is None else tuple(map(_unpacked_failure, unpack(_Outcome, outcome).failures)),
    )


def _packed_failure(failure: FailedAttempt) -> _Failure:
    return _Failure(_packed_attempt(failure.state), failure.outcome, failure.at, failure.reason)


def _packed_attempt(state: AttemptState) -> _AttemptState:
    return _AttemptState(state.device, state.member, state.first_at, state.failed_attempts, state.late_burst_count)


def _unpacked_attempt(packed: _AttemptState) -> AttemptState:
    return AttemptState(
        device=packed.device,
        member=packed.member,
        first_at=packed.first_at,
        failed_attempts=packed.failed_attempts,
        late_burst_count=packed.late_burst_count,
    )


def _unpacked_failure(packed: _Failure) -> FailedAttempt:
    return FailedAttempt(
        state=_unpacked_attempt(packed.state), outcome=packed.outcome, at=packed.at, reason=packed.reason
    )


# Push suppression, by member and by shard.


def suppressions_by_member(
    preferences: Iterable[tuple[Member, EncodedPreferences]],
    own_volumes: Mapping[Member, Volume],
    burst: Burst,
    now: datetime,
) -> Iterator[tuple[Member, AlertSuppressed | AlertDeferred]]:
    """Yield members whose account preferences suppress or defer their alerts for the burst, with that decision.

    `own_volumes` has the members' volumes for the burst's subject. Each combination of preferences is evaluated once:
    the members of many shards have only a few combinations.
    """
    reasons: dict[tuple[EncodedPreferences, Volume], AlertSuppressed | AlertDeferred | None] = {}
    for member, fields in preferences:
        own_volume = own_volumes.get(member, Volume.DEFAULT)
        combination = fields, own_volume
        if combination not in reasons:
            reasons[combination] = suppression_of(
                decode_preferences({field: (text, ALWAYS) for field, text in fields}), own_volume, burst, now
            )
        if (reason := reasons[combination]) is not None:
            yield member, reason


def suppression_by_shard(
    shards: Collection[int],
    suppressed: Iterable[Member],
    by_account_preference: Iterable[tuple[Member, AlertSuppressed | AlertDeferred]],
) -> Mapping[int, PushSuppression]:
    """Return the push suppression of each shard.

    `suppressed` has members who never get an alert for the burst. `by_account_preference` has members that account
    preferences hold back. A suppressed member does not count as being in quiet hours.
    """
    suppressed_by_shard: Mapping[int, set[int]] = {shard: set() for shard in shards}
    quiet_by_shard: Mapping[int, dict[int, datetime]] = {shard: {} for shard in shards}
    for member in suppressed:
        suppressed_by_shard[shard_of(member)].add(member % SHARD_MEMBERS)
    for member, reason in by_account_preference:
        match reason:
            case AlertSuppressed():
                suppressed_by_shard[shard_of(member)].add(member % SHARD_MEMBERS)
            case AlertDeferred(until=until):
                quiet_by_shard[shard_of(member)][member % SHARD_MEMBERS] = until
    return {shard: _suppression(suppressed_by_shard[shard], quiet_by_shard[shard]) for shard in shards}


def _suppression(suppressed: Collection[int], quiet: Mapping[int, datetime]) -> PushSuppression:
    only_quiet = {offset: until for offset, until in quiet.items() if offset not in suppressed}
    return PushSuppression(
        suppressed=from_offsets(suppressed) if suppressed else no_members(),
        quiet=from_offsets(only_quiet) if only_quiet else no_members(),
        recheck_at=min(only_quiet.values(), default=None),
    )
