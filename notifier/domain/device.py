"""A device: where alerts of a person can be sent, as its app registered it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import blake2s
from typing import NewType

from notifier.domain.subject import Member

DeviceId = NewType("DeviceId", str)
"""Of an address: whoever registers it, and however often, it is the same device."""

MOST_DEVICES = 20
"""Of a person; with one more the one that was registered longest ago goes."""


class Platform(StrEnum):
    """Whose servers know the device; each has a pool of its own."""

    APNS = "apns"
    FCM = "fcm"
    WEB = "web"


class Environment(StrEnum):
    """Apple's: a token of one is a stranger to the other."""

    PRODUCTION = "production"
    SANDBOX = "sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleToken:
    token: str
    """Hexadecimal, in small letters."""
    topic: str
    """The app's bundle."""
    environment: Environment = Environment.PRODUCTION


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
