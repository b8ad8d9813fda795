"""The libraries that alerts are compared with: their settings, number of sends, and limits."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from benchmarks.push import our_senders as ours
from benchmarks.push.our_senders import SUBJECT, TOPIC, Place
from notifier.domain.push.alert import ALERT_TTL, Alert
from notifier.domain.push.device import Address
from notifier.ports.push import Post, Provider, Reply, Transport
from tests.support.push_credentials import APPLE_KEY_ID, APPLE_TEAM_ID, apple_key, pem, service_account

DECRYPTED_MESSAGES = 16
"""Number of our messages that pywebpush's libraries decrypt before the measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    part: str
    name: str
    environment: str
    """The name of its pins."""
    place: str
    """FILE:NAME in the folder `inside` of the peers."""
    arguments: Callable[[Place, Alert], Mapping[str, Any]]
    """Returns the arguments for NAME."""
    sender: Callable[[Place, Transport], Provider]
    """Returns our sender."""
    address: Callable[[int, Place], Address]
    ways: tuple[str, ...] = ("only",)
    """Its ways of sending. The cheapest of a round counts."""
    ours_many: int
    many: int
    """Number of sends for each of its ways."""
    share: int
    """Divisor: our CPU time may be at most this fraction of the library's."""

    @property
    def figures(self) -> tuple[str, str]:
        return f"cpu_us_per_send{{{self.part}}}", f"sends_per_s{{{self.part}}}"


def _shown(alert: Alert) -> Mapping[str, Any]:
    return {"text": alert.text, "tag": alert.collapse_id, "lasts": int(ALERT_TTL.total_seconds())}


def _aioapns(place: Place, alert: Alert) -> Mapping[str, Any]:
    at = urlsplit(place.origin)
    who = {"key": pem(apple_key()).decode(), "key_id": APPLE_KEY_ID, "team_id": APPLE_TEAM_ID, "topic": TOPIC}
    return {"host": at.hostname, "port": at.port, "authority": str(place.authority), "who": who, **_shown(alert)}


def _firebase_admin(place: Place, alert: Alert) -> Mapping[str, Any]:
    account = json.loads(service_account(f"{place.origin}/token"))
    return {"origin": place.origin, "account": account, **_shown(alert)}


def _pywebpush(place: Place, alert: Alert) -> Mapping[str, Any]:
    keys = [
        {"p256dh": _base64(subscription.key), "auth": _base64(subscription.secret)}
        for subscription in ours.subscriptions()
    ]
    who = {"key": pem(apple_key()).decode(), "subject": SUBJECT}
    at = {"origin": place.origin, "authority": str(place.authority)}
    return {**at, **who, "keys": keys, "letters": letters(place, alert), **_shown(alert)}


@dataclass(frozen=True, slots=True)
class _Kept:
    """A Transport that sends nothing."""

    posts: list[Post] = field(default_factory=list)

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply]]:
        for post in posts:
            self.posts.append(post)
            yield post, Reply(status=201)


def letters(place: Place, alert: Alert) -> Sequence[Mapping[str, str]]:
    """Return our messages to the first browsers, each with the key that decrypts it."""
    kept = _Kept()
    ours.sent(ours.web(place, kept), alert, ours.devices(ours.browser, place, DECRYPTED_MESSAGES))
    return [
        {
            "body": _base64(post.body),
            "authorization": dict(post.headers)["authorization"],
            "key": pem(ours.private(number)).decode(),
        }
        for number, post in enumerate(kept.posts)
    ]


def _base64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


RIVALS = (
    Rival(
        part="apns",
        name="aioapns",
        environment="aioapns",
        place="aioapns_alerts:Aioapns",
        arguments=_aioapns,
        sender=ours.apns,
        address=ours.iphone,
        ours_many=20_000,
        many=2_000,
        share=5,
    ),
    Rival(
        part="fcm",
        name="firebase-admin",
        environment="firebase_admin",
        place="firebase_alerts:Firebase",
        arguments=_firebase_admin,
        sender=ours.fcm,
        address=ours.android,
        ways=("one", "each", "async"),
        ours_many=20_000,
        many=500,
        share=8,
    ),
    Rival(
        part="web",
        name="pywebpush",
        environment="pywebpush",
        place="pywebpush_alerts:Pywebpush",
        arguments=_pywebpush,
        sender=ours.web,
        address=ours.browser,
        ours_many=5_000,
        many=500,
        share=4,
    ),
)
