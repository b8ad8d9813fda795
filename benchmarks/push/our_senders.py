"""Our senders as in a sending process, on the benchmark's server, with alerts and devices."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.http2 import Http2Limits
from notifier.adapters.push import AccessTokens, ApnsSender, AppleKey, FcmSender, ProviderTokens, ServiceAccount
from notifier.adapters.push.webpush import Vapid, WebPushSender
from notifier.devkit.fake_providers.fake_browser import Browser
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.push.alert import ALERT_TTL, Alert, MentionAlert
from notifier.domain.push.device import Address, ApnsEnvironment, AppleToken, Device, FirebaseToken, WebSubscription
from notifier.domain.push.device_validation import PushServices
from notifier.domain.push.receipt import Accepted
from notifier.ports.push import Post, Provider, Reply, Transport
from tests.support.push_credentials import APPLE_KEY_ID, APPLE_TEAM_ID, apple_key, pem, service_account

REGISTRATION_AGE = timedelta(days=30)
"""Age of the devices' registrations."""
TOPIC, SUBJECT = "com.example.app", "mailto:ops@example.org"
BROWSERS = 64
"""Number of key pairs, which the subscriptions use in turns because generating them takes time. No sender caches parsed
keys."""
LIMITS = Http2Limits(max_connections=6)

clock = SystemClock()


def alert() -> Alert:
    name = f"{1:032x}"
    return Alert(
        burst=BurstKey(Subject(kind=Kind.MENTION, owner=UserId("nova")), 1),
        id=name,
        collapse_id=name,
        content=MentionAlert(opener=UserId("ada")),
        expires_at=clock.now() + ALERT_TTL,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Address of the benchmark's server, and the authority of its certificate."""

    origin: str
    authority: Path


def answers(post: Post) -> Reply:
    """Answer like the providers without checking the request, so that the server is not the limit."""
    if post.path.startswith("/3/device/"):
        return Reply(status=200, headers={"apns-id": dict(post.headers)["apns-id"]})
    if post.path.startswith("/v1/projects/"):
        return Reply(status=200, headers=_JSON, body=b'{"name":"projects/made-up/messages/0:1700000000000000"}')
    if post.path.startswith("/token"):
        return Reply(status=200, headers=_JSON, body=b'{"access_token":"ya29.bench","expires_in":3599}')
    return Reply(status=201, headers={"location": "/m/1"})


_JSON = {"content-type": "application/json; charset=UTF-8"}


def apns(place: Place, transport: Transport) -> Provider:
    key = AppleKey.read(pem(apple_key()), key_id=APPLE_KEY_ID, team_id=APPLE_TEAM_ID)
    origins = dict.fromkeys(ApnsEnvironment, place.origin)
    return ApnsSender(
        transport=transport, tokens=ProviderTokens(key), clock=clock, random=random.random, origins=origins
    )


def fcm(place: Place, transport: Transport) -> Provider:
    account = ServiceAccount.read(service_account(f"{place.origin}/token"))
    tokens = AccessTokens(account=account, transport=transport, clock=clock, random=random.random)
    return FcmSender(transport=tokens, origin=place.origin)


def web(place: Place, transport: Transport) -> Provider:
    vapid = Vapid.read(pem(apple_key()), subject=SUBJECT)
    services = PushServices(allows_loopback=True, is_production=False)
    return WebPushSender(transport=transport, vapid=vapid, services=services, clock=clock, random=random.random)


def iphone(number: int, place: Place) -> Address:
    return AppleToken(token=f"{number:064x}", topic=TOPIC)


def android(number: int, place: Place) -> Address:
    return FirebaseToken(token=f"install{number:08}:APA91b{'x' * 60}")


def browser(number: int, place: Place) -> Address:
    keys = subscriptions()[number % BROWSERS]
    return WebSubscription(endpoint=f"{place.origin}/wpush/v2/{number}", key=keys.key, secret=keys.secret)


@cache
def subscriptions() -> Sequence[WebSubscription]:
    made = (
        Browser(endpoint="", private=private(n), secret=bytes([n] * 16), application_server_key="")
        for n in range(BROWSERS)
    )
    return [browser_.subscription for browser_ in made]


def private(browser: int) -> EllipticCurvePrivateKey:
    return apple_key(1 + browser)


def devices(address: Callable[[int, Place], Address], place: Place, many: int) -> Sequence[Device]:
    at = clock.now() - REGISTRATION_AGE
    return [Device(member=Member(n), address=address(n, place), registered_at=at) for n in range(many)]


def sent(provider: Provider, shown: Alert, targets: Sequence[Device]) -> None:
    """Send to all devices. Raises AssertionError if one isn't accepted."""
    accepted = 0
    for device, receipt in provider.send(shown, targets):
        if not isinstance(receipt, Accepted):
            raise AssertionError(f"{device.platform} {device.member} got {receipt}")
        accepted += 1
    assert accepted == len(targets), f"only {accepted:,} of {len(targets):,} were accepted"
