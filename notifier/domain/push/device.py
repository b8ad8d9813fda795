"""A device: where alerts of a person can be sent, as its app registered it, and whose it is by the latest word."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2s
from typing import NewType

from notifier.domain.ids import Member, Platform

DeviceId = NewType("DeviceId", str)
"""Of an address: whoever registers it, and however often, it is the same device."""

MOST_DEVICES = 20
"""Of a person; with one more the one that was registered longest ago goes."""

KEPT = timedelta(days=270)
"""After its last registration: apps register whenever they start, and Google takes a token that was silent for so long
for a dead one."""

_TICK = timedelta(milliseconds=1)
"""What every store tells apart."""


class ApnsEnvironment(StrEnum):
    """Apple's: a token of one is a stranger to the other."""

    PRODUCTION = "production"
    SANDBOX = "sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleToken:
    token: str
    """Hexadecimal, in small letters."""
    topic: str
    """The app's bundle."""
    environment: ApnsEnvironment = ApnsEnvironment.PRODUCTION


@dataclass(frozen=True, slots=True, kw_only=True)
class FirebaseToken:
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirebaseInstallation:
    """What takes the place of tokens; an app may have either."""

    fid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSubscription:
    endpoint: str
    """A URL that somebody's browser gave to somebody's app: never to be trusted."""
    key: bytes
    """The browser's public key, `p256dh`: 65 bytes."""
    secret: bytes
    """`auth`: 16 bytes."""


Address = AppleToken | FirebaseToken | FirebaseInstallation | WebSubscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    member: Member
    address: Address
    locale: str = "en"
    time_zone: str = "UTC"
    registered_at: datetime
    """The last time: what a provider said of the address before that is over."""

    @property
    def id(self) -> DeviceId:
        return device_id(self.address)

    @property
    def platform(self) -> Platform:
        return platform_of(self.address)

    @property
    def rank(self) -> "Rank":
        return self.registered_at, False, self.member


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Nobody is told through it any more: it was unregistered, dropped by its provider, or one too many."""

    id: DeviceId
    platform: Platform
    member: Member
    """Whose it was."""
    at: datetime
    """A registration that came later stands; one of the same moment doesn't."""

    @property
    def rank(self) -> "Rank":
        return self.at, True, self.member


DeviceWord = Device | Gone
"""What is said of a device. Of all that is said of one, by whomever, what ranks highest stands: it has one holder, or
none."""

Rank = tuple[datetime, bool, Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What stands of a device, without its address."""

    member: Member
    platform: Platform
    at: datetime
    gone: bool = False

    @property
    def rank(self) -> Rank:
        return self.at, self.gone, self.member


def later(now: datetime, before: Holding | None) -> datetime:
    """The moment of a word that is said now, to a whole millisecond: behind what stands, also where that is by a clock
    that is ahead of this one."""
    moment = now.replace(microsecond=now.microsecond // 1000 * 1000)
    return moment if before is None else max(moment, before.at + _TICK)


def gone(device: Device) -> Gone:
    """As it was registered: who registers it anew has it."""
    return Gone(id=device.id, platform=device.platform, member=device.member, at=device.registered_at)


def taken(holding: Holding, id: DeviceId, at: datetime) -> Gone:
    """From whoever holds it, right before the moment at which it becomes somebody else's."""
    return Gone(id=id, platform=holding.platform, member=holding.member, at=at - _TICK)


def dropped(device: Device, at: datetime | None, now: datetime) -> Gone | None:
    """By its provider, who knows since when, of the device as the alert was sent to it. None where it was registered
    after that.

    A provider whose clock is ahead says nothing of registrations that are to come.
    """
    since = device.registered_at if at is None else min(at, now)
    if since < device.registered_at:
        return None
    return Gone(id=device.id, platform=device.platform, member=device.member, at=since)


def too_many(devices: Collection[Device]) -> Sequence[Gone]:
    """Of one person: those that were registered longest ago go."""
    newest = sorted(devices, key=lambda device: (device.registered_at, device.id), reverse=True)
    return [gone(device) for device in newest[MOST_DEVICES:]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """What the stream carries: a word, or a shard of which it is to be found out again who has a device."""

    word: DeviceWord | None = None
    known: bool = False
    """The device was the same member's before: what the bitmap says is most probably so."""
    anew: int | None = None


def platform_of(address: Address) -> Platform:
    match address:
        case AppleToken():
            return Platform.APNS
        case FirebaseToken() | FirebaseInstallation():
            return Platform.FCM
        case WebSubscription():
            return Platform.WEB


def device_id(address: Address) -> DeviceId:
    return DeviceId(blake2s("\n".join(_named(address)).encode(), digest_size=16).hexdigest())


def _named(address: Address) -> tuple[str, ...]:
    """What makes it this one, and no other."""
    match address:
        case AppleToken(token=token, topic=topic, environment=environment):
            return Platform.APNS, environment, topic, token
        case FirebaseToken(token=token):
            return Platform.FCM, "token", token
        case FirebaseInstallation(fid=fid):
            return Platform.FCM, "fid", fid
        case WebSubscription(endpoint=endpoint):
            return Platform.WEB, endpoint
