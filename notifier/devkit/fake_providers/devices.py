"""Phones, as a provider leaves them: what each shows, and how often it rang."""

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2s
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key

from notifier.adapters.push import fakes as development
from notifier.devkit.fake_providers.browser import Browser
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Address, AppleToken, FirebaseToken, WebSubscription

MOST = 100_000
"""Phones that are remembered, the last ones: a bench sends to a million, and its memory is measured."""


@dataclass(slots=True)
class FakePhone:
    shows: dict[str, str] = field(default_factory=dict)
    """Texts by what a later one replaces them by, oldest first."""
    rang: int = 0
    ids: list[str] = field(default_factory=list)
    """Of everything that arrived, in order."""

    def ring(self, *, place: str, text: str, id: str) -> bool:
        """Whether it is the first time that this id arrives: no provider looks at that, and the phone rings again."""
        new = id not in self.ids
        self.shows[place] = text
        self.rang += 1
        self.ids.append(id)
        return new


class AlertListener(Protocol):
    """Told of whatever arrives at a phone."""

    def __call__(self, to: str, *, place: str, text: str, id: str) -> None: ...


def nobody(to: str, *, place: str, text: str, id: str) -> None:
    """Listens."""


@dataclass(slots=True)
class FakePhones:
    by_token: "OrderedDict[str, FakePhone]" = field(default_factory=OrderedDict)
    rang: int = 0
    duplicates: int = 0
    """Of one id at one phone, beyond the first."""
    heard: AlertListener = nobody

    def __getitem__(self, token: str) -> FakePhone:
        """One that nothing arrived at yet is empty, and not remembered."""
        return self.by_token.get(token) or FakePhone()

    def ring(self, token: str, *, place: str, text: str, id: str) -> None:
        phone = self.by_token.setdefault(token, FakePhone())
        if len(self.by_token) > MOST:
            self.by_token.popitem(last=False)
        self.heard(token, place=place, text=text, id=id)  # first: where it can't be told, the alert isn't taken
        self.rang += 1
        self.duplicates += not phone.ring(place=place, text=text, id=id)


# Addresses of the fixture's people: of a member's number alone, so that whoever fills a store and whoever plays the
# phones need nothing of each other.
#
# In a store a browser's endpoint is at a real push service's name; the sender for fakes takes all of them to the
# fake.

TOPIC = "com.example.notifier"
ORIGIN = "https://updates.push.services.mozilla.com"
PATH = "/wpush/v2/fixture-"
REMEMBERED = 100_000
"""Browsers, whose keys take 60 µs each to derive."""
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of P-256: private keys are below it."""
_BY_NUMBER = re.compile(rf"(?:{re.escape(PATH)}|fixture-)(\d{{1,18}})")
_BY_TOKEN = re.compile(r"0{48}([0-9a-f]{16})")


def fixture_apns_token(m: int) -> str:
    return f"{m:064x}"


def fixture_fcm_token(m: int) -> str:
    return f"fixture-{m}"


def fixture_subscription(origin: str, m: int) -> WebSubscription:
    return browser(origin, f"{PATH}{m}").subscription


def fixture_address(platform: Platform, m: int, *, origin: str = ORIGIN) -> Address:
    match platform:
        case Platform.APNS:
            return AppleToken(token=fixture_apns_token(m), topic=TOPIC)
        case Platform.FCM:
            return FirebaseToken(token=fixture_fcm_token(m))
        case Platform.WEB:
            return fixture_subscription(origin, m)


def member_of(to: str) -> Member | None:
    """Whose an address is: a token of either kind, or the path of an endpoint; None where it is no fixture's."""
    if found := _BY_NUMBER.fullmatch(to):
        return Member(int(found[1]))
    if found := _BY_TOKEN.fullmatch(to):
        return Member(int(found[1], 16))
    return None


@lru_cache(maxsize=REMEMBERED)
def browser(origin: str, path: str) -> Browser:
    """The one behind this path, which subscribed with the key that everybody knows."""
    number = int.from_bytes(blake2s(path.encode()).digest(), "big") % (_ORDER - 1) + 1
    return Browser(
        endpoint=origin + path,
        private=derive_private_key(number, SECP256R1()),
        secret=blake2s(b"auth" + path.encode()).digest()[:16],
        key=development.web().public,
    )
