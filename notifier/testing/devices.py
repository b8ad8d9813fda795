"""The devices of a world's people: one for each who has any, by formula, as docs/fixture.md tells it."""

from collections.abc import Iterator
from datetime import datetime

from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Device
from notifier.domain.push.translations import PHRASES
from notifier.testing.providers.fixture import fixture_address
from notifier.testing.world import World

LOCALES = tuple(sorted(PHRASES))
"""ar, de, en, es, fr, hi, it, ja, ko, pt, tr, zh, zh-hant: as many as have no divisor in common with the platforms, so
that each of these has all of them."""


def devices(world: World, registered_at: datetime) -> Iterator[Device]:
    """By member."""
    return (device(m, registered_at) for m in world.reachable().tolist())


def device(m: int, registered_at: datetime) -> Device:
    return Device(
        member=Member(m),
        address=fixture_address(platform(m), m),
        locale=LOCALES[m % len(LOCALES)],
        registered_at=registered_at,
    )


def platform(m: int) -> Platform:
    return (Platform.APNS, Platform.FCM, Platform.WEB)[m % 3]
