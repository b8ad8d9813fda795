"""Senders of alerts and the fakes that they send to, wired; and a wire that says what went over it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from itertools import islice
from urllib.parse import urlsplit

from notifier.adapters.push import AccessTokens, ApnsSender, AppleKey, FcmSender, ProviderTokens, ServiceAccount
from notifier.devkit.fake_providers import FakeApns, FakeFcm, ProviderScript
from notifier.devkit.fake_providers.apns import Bearers
from notifier.devkit.fake_providers.oauth import Grants
from notifier.domain.ids import Member
from notifier.domain.push.alert import Alert, alert
from notifier.domain.push.device import Address, AppleToken, Device, FirebaseInstallation, FirebaseToken
from notifier.domain.push.receipt import Receipt
from notifier.ports.push import Post, Provider, Reply, Silence
from tests.support.examples import NOON, burst
from tests.support.fakes.clock import ManualClock
from tests.support.push_credentials import (
    EMAIL,
    GOOGLE_KEY_ID,
    KEY_ID,
    PROJECT,
    TEAM_ID,
    TOKEN_URI,
    apple_key,
    google_key,
    pem,
    service_account,
)

TOPIC = "com.example.app"
AGO = NOON - timedelta(days=30)
"""When devices registered that nobody doubts."""
ALERT = alert(burst())


@dataclass(slots=True)
class Wire:
    """A transport in memory; what it is told to answer instead the other side never hears of."""

    answering: Callable[[Post], Reply | Silence]
    instead: Callable[[Post], Reply | Silence | None] = lambda _: None
    ahead: int = 1
    """So many are on their way at once, and the last of them is answered first."""
    sent: list[Post] = field(default_factory=list)

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | Silence]]:
        rest = iter(posts)
        while together := [*islice(rest, self.ahead)]:
            self.sent += together
            for post in reversed(together):
                yield post, self.instead(post) or self.answering(post)

    @property
    def letters(self) -> list[Post]:
        """Without what was asked of Google's token endpoint."""
        return [post for post in self.sent if post.path != urlsplit(TOKEN_URI).path]


@dataclass(slots=True, kw_only=True)
class Apple:
    clock: ManualClock
    theirs: ManualClock
    fake: FakeApns
    wire: Wire
    sender: ApnsSender

    def advance(self, by: timedelta) -> None:
        self.clock.advance(by)
        self.theirs.advance(by)


@dataclass(slots=True, kw_only=True)
class Google:
    clock: ManualClock
    theirs: ManualClock
    fake: FakeFcm
    wire: Wire
    sender: FcmSender

    def advance(self, by: timedelta) -> None:
        self.clock.advance(by)
        self.theirs.advance(by)


def apple(*, script: ProviderScript | None = None, ahead: timedelta = timedelta()) -> Apple:
    """`ahead`: of our clock before Apple's."""
    clock, theirs = ManualClock(NOON + ahead), ManualClock(NOON)
    bearers = Bearers(keys={KEY_ID: apple_key().public_key()}, team=TEAM_ID)
    fake = FakeApns(bearers=bearers, topics=frozenset({TOPIC}), clock=theirs, script=script or ProviderScript())
    wire = Wire(fake.answer)
    key = AppleKey.read(pem(apple_key()), key_id=KEY_ID, team_id=TEAM_ID)
    sender = ApnsSender(transport=wire, tokens=ProviderTokens(key), clock=clock, chance=lambda: 0.0)
    return Apple(clock=clock, theirs=theirs, fake=fake, wire=wire, sender=sender)


@cache
def account() -> ServiceAccount:
    """Reading a key of RSA tries its primes, for a tenth of a second."""
    return ServiceAccount.read(service_account())


def google(*, script: ProviderScript | None = None, ahead: timedelta = timedelta()) -> Google:
    clock, theirs = ManualClock(NOON + ahead), ManualClock(NOON)
    grants = Grants(email=EMAIL, key_id=GOOGLE_KEY_ID, key=google_key().public_key(), audience=TOKEN_URI)
    fake = FakeFcm(project=PROJECT, grants=grants, clock=theirs, script=script or ProviderScript())
    wire = Wire(fake.answer)
    sender = FcmSender(tokens=AccessTokens(account=account(), transport=wire, clock=clock, chance=lambda: 0.0))
    return Google(clock=clock, theirs=theirs, fake=fake, wire=wire, sender=sender)


def device(address: Address, *, locale: str = "en", number: int = 1) -> Device:
    return Device(member=Member(number), address=address, locale=locale, registered_at=AGO)


def iphone(number: int = 1, *, locale: str = "en") -> Device:
    return device(AppleToken(token=f"{number:064x}", topic=TOPIC), locale=locale, number=number)


def android(number: int = 1, *, locale: str = "en") -> Device:
    return device(FirebaseToken(token=f"install{number:08}:APA91b{'x' * 60}"), locale=locale, number=number)


def installation(number: int = 1) -> Device:
    return device(FirebaseInstallation(fid=f"c{number:021}"), number=number)


def sent(provider: Provider, given: Alert, *devices: Device) -> Sequence[Receipt]:
    """In the order of the devices."""
    found = dict(provider.send(given, devices))
    return [found[one] for one in devices]
