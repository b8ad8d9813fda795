"""Fake devices: the alerts that each one shows, and the addresses of the fixture's users."""

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2s
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key

from notifier.adapters.push import public_test_credentials as test_credentials
from notifier.devkit.fake_providers.fake_browser import Browser
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Address, AppleToken, FirebaseToken, WebSubscription

MAX_DEVICES = 100_000
"""Maximum number of devices that are remembered: a benchmark sends to a million devices and measures memory."""


@dataclass(slots=True)
class FakePhone:
    shown: dict[str, str] = field(default_factory=dict)
    """Shown texts by collapse id."""
    alert_count: int = 0
    ids: list[str] = field(default_factory=list)
    """Ids of all alerts that arrived, in order."""

    def ring(self, *, collapse_id: str, text: str, id: str) -> bool:
        """Show an alert and return whether its id is new.

        Providers do not deduplicate by id, so the device alerts again for a known id.
        """
        is_new = id not in self.ids
        self.shown[collapse_id] = text
        self.alert_count += 1
        self.ids.append(id)
        return is_new


class AlertListener(Protocol):
    """Callback for each alert that arrives at a device."""

    def __call__(self, to: str, *, collapse_id: str, text: str, id: str) -> None: ...


def ignore_alert(to: str, *, collapse_id: str, text: str, id: str) -> None:
    """Ignore the alert."""


@dataclass(slots=True)
class FakePhones:
    by_token: "OrderedDict[str, FakePhone]" = field(default_factory=OrderedDict)
    alert_count: int = 0
    duplicate_count: int = 0
    """Number of alerts whose id had already arrived on the same device."""
    listener: AlertListener = ignore_alert

    def __getitem__(self, token: str) -> FakePhone:
        """Return the device, or an empty one that is not stored if no alert has arrived yet."""
        return self.by_token.get(token) or FakePhone()

    def ring(self, token: str, *, collapse_id: str, text: str, id: str) -> None:
        phone = self.by_token.setdefault(token, FakePhone())
        if len(self.by_token) > MAX_DEVICES:
            self.by_token.popitem(last=False)
        # Call the listener before counting: if it raises, the alert is not accepted.
        self.listener(token, collapse_id=collapse_id, text=text, id=id)
        self.alert_count += 1
        self.duplicate_count += not phone.ring(collapse_id=collapse_id, text=text, id=id)


# Addresses of the fixture's users, computed from the member number.
#
# Stored browser endpoints have the host of a real push service. A transport reroutes their requests to the fake.

APNS_TOPIC = "com.example.notifier"
PUSH_SERVICE_ORIGIN = "https://updates.push.services.mozilla.com"
ENDPOINT_PATH_PREFIX = "/wpush/v2/fixture-"
"""Path of a fixture user's endpoint, without the member number."""
MAX_CACHED_BROWSERS = 100_000
"""Maximum number of cached browsers. To derive the keys of a browser takes 60 µs."""
_CURVE_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the curve P-256. Private keys are smaller."""
_FCM_TOKEN_OR_PATH = re.compile(rf"(?:{re.escape(ENDPOINT_PATH_PREFIX)}|fixture-)(\d{{1,18}})")
_APNS_TOKEN = re.compile(r"0{48}([0-9a-f]{16})")


def fixture_apns_token(member: int) -> str:
    return f"{member:064x}"


def fixture_fcm_token(member: int) -> str:
    return f"fixture-{member}"


def fixture_subscription(origin: str, member: int) -> WebSubscription:
    return browser(origin, f"{ENDPOINT_PATH_PREFIX}{member}").subscription


def fixture_address(platform: Platform, member: int, *, origin: str = PUSH_SERVICE_ORIGIN) -> Address:
    match platform:
        case Platform.APNS:
            return AppleToken(token=fixture_apns_token(member), topic=APNS_TOPIC)
        case Platform.FCM:
            return FirebaseToken(token=fixture_fcm_token(member))
        case Platform.WEB:
            return fixture_subscription(origin, member)


def member_of(address: str) -> Member | None:
    """Return the member of a fixture user's token or endpoint path, or None for any other address."""
    if match := _FCM_TOKEN_OR_PATH.fullmatch(address):
        return Member(int(match[1]))
    if match := _APNS_TOKEN.fullmatch(address):
        return Member(int(match[1], 16))
    return None


@lru_cache(maxsize=MAX_CACHED_BROWSERS)
def browser(origin: str, path: str) -> Browser:
    """Return the browser of this path, subscribed with the public test key."""
    number = int.from_bytes(blake2s(path.encode()).digest(), "big") % (_CURVE_ORDER - 1) + 1
    return Browser(
        endpoint=origin + path,
        private=derive_private_key(number, SECP256R1()),
        secret=blake2s(b"auth" + path.encode()).digest()[:16],
        application_server_key=test_credentials.fake_vapid().public_key,
    )
