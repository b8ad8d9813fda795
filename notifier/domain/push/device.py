"""Devices: addresses registered by apps, and which member holds each of them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2s
from typing import NewType

from notifier.domain.ids import Member, Platform

DeviceId = NewType("DeviceId", str)
"""Hash of an address: the same for every user and every registration."""

MAX_DEVICES = 20
"""Maximum number of devices per user. Registering one more drops the least recently registered device."""

DEVICE_KEPT_FOR = timedelta(days=270)
"""Lifetime after the last registration. Apps register at each start. Google, too, expires tokens after 270 days."""

_TICK = timedelta(milliseconds=1)
"""Finest time resolution that every store keeps."""


class ApnsEnvironment(StrEnum):
    """APNs environment. A token is valid in one of them only."""

    PRODUCTION = "production"
    SANDBOX = "sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleToken:
    token: str
    """Lowercase hexadecimal."""
    topic: str
    """Bundle id of the app."""
    environment: ApnsEnvironment = ApnsEnvironment.PRODUCTION


@dataclass(frozen=True, slots=True, kw_only=True)
class FirebaseToken:
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirebaseInstallation:
    """Firebase installation id, the successor of tokens. An app may use either."""

    fid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSubscription:
    endpoint: str
    """Untrusted URL: it comes from a browser, through an app."""
    key: bytes
    """Public key of the browser (`p256dh`), 65 bytes."""
    secret: bytes
    """Authentication secret (`auth`), 16 bytes."""


Address = AppleToken | FirebaseToken | FirebaseInstallation | WebSubscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    member: Member
    address: Address
    locale: str = "en"
    time_zone: str = "UTC"
    registered_at: datetime
    """Time of the latest registration. A report that the address became invalid earlier no longer applies."""

    @property
    def id(self) -> DeviceId:
        return device_id(self.address)

    @property
    def platform(self) -> Platform:
        return platform_of(self.address)

    @property
    def rank(self) -> "DeviceRank":
        return self.registered_at, False, self.member


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRemoval:
    """Tombstone of a device that its member no longer has."""

    id: DeviceId
    platform: Platform
    member: Member
    """The last holder."""
    at: datetime
    """A registration overrides the removal only if its time is later than this."""

    @property
    def rank(self) -> "DeviceRank":
        return self.at, True, self.member


DeviceUpdate = Device | DeviceRemoval
"""An update of a device. The highest rank wins regardless of the writer, so a device has at most one holder."""

DeviceRank = tuple[datetime, bool, Member]
"""Order of updates: time, then removals over registrations, then the member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOwnership:
    """Current state of a device, without its address."""

    member: Member
    """The holder, or the last holder of a removed device."""
    platform: Platform
    at: datetime
    is_removed: bool = False

    @property
    def rank(self) -> DeviceRank:
        return self.at, self.is_removed, self.member


def next_update_time(now: datetime, current: DeviceOwnership | None) -> datetime:
    """Return the time of an update made now, in whole milliseconds.

    It is later than the time of the current state, whose writer may have had a clock that was ahead.
    """
    at = now.replace(microsecond=now.microsecond // 1000 * 1000)
    return at if current is None else max(at, current.at + _TICK)


def removal_of(device: Device) -> DeviceRemoval:
    """Return a tombstone with the time of the registration, so that a later registration overrides it."""
    return DeviceRemoval(id=device.id, platform=device.platform, member=device.member, at=device.registered_at)


def removal_for_takeover(current: DeviceOwnership, id: DeviceId, at: datetime) -> DeviceRemoval:
    """Return a tombstone for the current holder, just before another member registers the device at `at`."""
    return DeviceRemoval(id=id, platform=current.platform, member=current.member, at=at - _TICK)


def removal_by_provider(device: Device, at: datetime | None, now: datetime) -> DeviceRemoval | None:
    """Return the tombstone of a device whose provider reports that the address became invalid at `at`.

    `device` is the registration that the alert was sent to. If it was made after `at`, return None. A time in the
    future counts as now, so a provider's clock that is ahead can't drop later registrations.
    """
    gone_at = device.registered_at if at is None else min(at, now)
    if gone_at < device.registered_at:
        return None
    return DeviceRemoval(id=device.id, platform=device.platform, member=device.member, at=gone_at)


def surplus_removals(devices: Collection[Device]) -> Sequence[DeviceRemoval]:
    """Return tombstones for one user's devices beyond the limit, the least recently registered ones."""
    newest_first = sorted(devices, key=lambda device: (device.registered_at, device.id), reverse=True)
    return [removal_of(device) for device in newest_first[MAX_DEVICES:]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """A record of the device stream: an update, or a shard to rebuild."""

    update: DeviceUpdate | None = None
    is_known_holder: bool = False
    """The same member held the device before, so the bitmap most likely needs no change."""
    rebuild_shard: int | None = None
    """Shard whose bitmap of members with devices is to be rebuilt."""


def platform_of(address: Address) -> Platform:
    match address:
        case AppleToken():
            return Platform.APNS
        case FirebaseToken() | FirebaseInstallation():
            return Platform.FCM
        case WebSubscription():
            return Platform.WEB


def device_id(address: Address) -> DeviceId:
    return DeviceId(blake2s("\n".join(_identity(address)).encode(), digest_size=16).hexdigest())


def _identity(address: Address) -> tuple[str, ...]:
    match address:
        case AppleToken(token=token, topic=topic, environment=environment):
            return Platform.APNS, environment, topic, token
        case FirebaseToken(token=token):
            return Platform.FCM, "token", token
        case FirebaseInstallation(fid=fid):
            return Platform.FCM, "fid", fid
        case WebSubscription(endpoint=endpoint):
            return Platform.WEB, endpoint
