"""The handsets: by which providers the scene's people are reached, where there are several, and their devices."""

from collections.abc import Collection, Iterator
from datetime import datetime

from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Address, AppleToken, Device, DeviceWord, FirebaseToken, WebSubscription, gone
from notifier.testing.oracle import Person

ONE = (Platform.FCM,)
ALL = (Platform.APNS, Platform.FCM, Platform.WEB)
KEPT = {"kim": ALL, "roy": (Platform.APNS, Platform.FCM), "lee": (Platform.WEB,), "nova": (Platform.APNS,)}
"""Of those who have a phone; others who get one have Google's."""


def kept(name: str, platforms: Collection[Platform]) -> Collection[Platform]:
    return KEPT.get(name, ONE) if len(platforms) > 1 else platforms


def handsets(person: Person, platforms: Collection[Platform], now: datetime) -> Iterator[DeviceWord]:
    """One for each provider, as it stands from now on."""
    for platform in kept(person.name, platforms):
        device = Device(member=Member(person.member), address=_address(person.name, platform), registered_at=now)
        yield device if person.push else gone(device)


def _address(name: str, platform: Platform) -> Address:
    match platform:
        case Platform.APNS:
            return AppleToken(token=name.encode().hex(), topic="app")
        case Platform.FCM:
            return FirebaseToken(token=name)
        case Platform.WEB:
            return WebSubscription(endpoint=f"https://push.example/{name}", key=bytes(65), secret=bytes(16))
