"""Builds alert senders with fake providers, and a transport that records requests."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from itertools import islice
from urllib.parse import urlsplit

from notifier.adapters.push import AccessTokens, ApnsSender, AppleKey, FcmSender, ProviderTokens, ServiceAccount
from notifier.devkit.fake_providers import FakeApns, FakeFcm, ProviderScript
from notifier.devkit.fake_providers.apns import TokenCheck
from notifier.devkit.fake_providers.oauth import TokenEndpoint
from notifier.domain.ids import Member
from notifier.domain.push.alert import Alert, burst_alert
from notifier.domain.push.device import Address, AppleToken, Device, FirebaseInstallation, FirebaseToken
from notifier.domain.push.receipt import Receipt
from notifier.ports.push import NoReply, Post, Provider, Reply
from tests.support.domain_examples import NOON, burst
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.push_credentials import (
    APPLE_KEY_ID,
    APPLE_TEAM_ID,
    GOOGLE_EMAIL,
    GOOGLE_KEY_ID,
    GOOGLE_PROJECT,
    TOKEN_URI,
    apple_key,
    fake_google_key,
    pem,
    service_account,
)

TOPIC = "com.example.app"
LONG_AGO = NOON - timedelta(days=30)
"""Registration time of test devices."""
ALERT = burst_alert(burst())


@dataclass(slots=True)
class Wire:
    """An in-memory transport. Answers of `override` replace the provider's, which then never sees the request."""

    answer: Callable[[Post], Reply | NoReply]
    override: Callable[[Post], Reply | NoReply | None] = lambda _: None
    in_flight: int = 1
    """Number of requests in flight at once; the last of them is answered first."""
    sent: list[Post] = field(default_factory=list)

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | NoReply]]:
        remaining = iter(posts)
        while batch := [*islice(remaining, self.in_flight)]:
            self.sent += batch
            for post in reversed(batch):
                yield post, self.override(post) or self.answer(post)

    @property
    def pushes(self) -> list[Post]:
        """Requests, without those to Google's token endpoint."""
        return [post for post in self.sent if post.path != urlsplit(TOKEN_URI).path]


@dataclass(slots=True, kw_only=True)
class Apple:
    clock: ManualClock
    provider_clock: ManualClock
    fake: FakeApns
    wire: Wire
    sender: ApnsSender

    def advance(self, by: timedelta) -> None:
        self.clock.advance(by)
        self.provider_clock.advance(by)


@dataclass(slots=True, kw_only=True)
class Google:
    clock: ManualClock
    provider_clock: ManualClock
    fake: FakeFcm
    wire: Wire
    sender: FcmSender

    def advance(self, by: timedelta) -> None:
        self.clock.advance(by)
        self.provider_clock.advance(by)


def apple(*, script: ProviderScript | None = None, ahead: timedelta = timedelta()) -> Apple:
    """Build an APNs sender; `ahead` is how far our clock is ahead of Apple's."""
    clock, provider_clock = ManualClock(NOON + ahead), ManualClock(NOON)
    token_check = TokenCheck(keys={APPLE_KEY_ID: apple_key().public_key()}, team=APPLE_TEAM_ID)
    fake = FakeApns(
        token_check=token_check, topics=frozenset({TOPIC}), clock=provider_clock, script=script or ProviderScript()
    )
    wire = Wire(fake.answer)
    key = AppleKey.read(pem(apple_key()), key_id=APPLE_KEY_ID, team_id=APPLE_TEAM_ID)
    sender = ApnsSender(transport=wire, tokens=ProviderTokens(key), clock=clock, random=lambda: 0.0)
    return Apple(clock=clock, provider_clock=provider_clock, fake=fake, wire=wire, sender=sender)


@cache
def account() -> ServiceAccount:
    """Read the account once: checking the primes of its RSA key takes 0.1 s."""
    return ServiceAccount.read(service_account())


def google(*, script: ProviderScript | None = None, ahead: timedelta = timedelta()) -> Google:
    clock, provider_clock = ManualClock(NOON + ahead), ManualClock(NOON)
    token_endpoint = TokenEndpoint(
        email=GOOGLE_EMAIL, key_id=GOOGLE_KEY_ID, key=fake_google_key().public_key(), audience=TOKEN_URI
    )
    fake = FakeFcm(
        project=GOOGLE_PROJECT, token_endpoint=token_endpoint, clock=provider_clock, script=script or ProviderScript()
    )
    wire = Wire(fake.answer)
    sender = FcmSender(transport=AccessTokens(account=account(), transport=wire, clock=clock, random=lambda: 0.0))
    return Google(clock=clock, provider_clock=provider_clock, fake=fake, wire=wire, sender=sender)


def device(address: Address, *, locale: str = "en", number: int = 1) -> Device:
    return Device(member=Member(number), address=address, locale=locale, registered_at=LONG_AGO)


def iphone(number: int = 1, *, locale: str = "en") -> Device:
    return device(AppleToken(token=f"{number:064x}", topic=TOPIC), locale=locale, number=number)


def android(number: int = 1, *, locale: str = "en") -> Device:
    return device(FirebaseToken(token=f"install{number:08}:APA91b{'x' * 60}"), locale=locale, number=number)


def installation(number: int = 1) -> Device:
    return device(FirebaseInstallation(fid=f"c{number:021}"), number=number)


def sent(provider: Provider, alert_: Alert, *devices: Device) -> Sequence[Receipt]:
    """Send the alert and return the receipts in the order of the devices."""
    receipts = dict(provider.send(alert_, devices))
    return [receipts[device_] for device_ in devices]
