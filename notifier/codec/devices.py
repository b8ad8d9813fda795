"""Devices as the stores and the log keep them: an address by its kind, and a word whole or as what ends it."""

import msgspec

from notifier.codec.storage import pack, unpack
from notifier.codec.timestamps import from_ms, to_ms
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import (
    Address,
    AppleToken,
    Device,
    DeviceId,
    DeviceRecord,
    DeviceWord,
    Environment,
    FirebaseInstallation,
    FirebaseToken,
    Gone,
    WebSubscription,
)


class _Apple(msgspec.Struct, array_like=True, tag="apns"):
    token: str
    topic: str
    environment: Environment


class _FirebaseToken(msgspec.Struct, array_like=True, tag="token"):
    token: str


class _FirebaseInstallation(msgspec.Struct, array_like=True, tag="fid"):
    fid: str


class _Web(msgspec.Struct, array_like=True, tag="web"):
    endpoint: str
    key: bytes
    secret: bytes


class _Told(msgspec.Struct, array_like=True):
    """What a registration says, beside whose it is and when that was."""

    address: _Apple | _FirebaseToken | _FirebaseInstallation | _Web
    locale: str
    time_zone: str


class _Word(msgspec.Struct, array_like=True):
    member: Member
    at: int
    id: DeviceId
    platform: Platform
    told: _Told | None
    """None: it is gone."""


class _Record(msgspec.Struct, array_like=True):
    word: _Word | None
    known: bool
    anew: int | None


def pack_told(device: Device) -> bytes:
    return pack(_told(device))


def unpack_told(member: Member, told: bytes, at: int) -> Device:
    """As it was registered at that millisecond. Raises Poison."""
    return _device(member, unpack(_Told, told), at)


def pack_device_record(record: DeviceRecord) -> bytes:
    word = None if record.word is None else _word(record.word)
    return pack(_Record(word, record.known, record.anew))


def unpack_device_record(blob: bytes) -> DeviceRecord:
    """Raises Poison."""
    found = unpack(_Record, blob)
    word = None if found.word is None else _said(found.word)
    return DeviceRecord(word=word, known=found.known, anew=found.anew)


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
