"""The providers that keep the contract, each with the phones behind it and its own words for what may happen.

Another one is a function more in SIDES; one that has no wire goes into WITHOUT_A_WIRE.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from notifier.domain.device import AppleToken, Device, FirebaseInstallation, FirebaseToken
from notifier.ports.http2 import Post, Reply, Silence
from notifier.ports.providers import Provider
from notifier.testing.memory.clock import ManualClock
from notifier.testing.providers.browser import Browser
from tests.unit.browsers import World
from tests.unit.browsers import device as subscribed
from tests.unit.pushing import Wire, android, apple, google, installation, iphone


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How this provider says it."""

    gone: Callable[[datetime], Reply]
    tells_when: bool
    too_large: Reply
    not_us: Reply
    busy: Reply
    """Without a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    provider: Provider
    device: Callable[[int], Device]
    shows: Callable[[Device], Sequence[str]]
    rang: Callable[[Device], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired(Side):
    clock: ManualClock
    wire: Wire
    words: Words
    id_of: Callable[[Post], object]
    """What makes two of them one for the phone, or for the provider."""

    def says(self, answer: Reply | Silence) -> None:
        """To every letter from here on."""
        self.wire.instead = lambda post: answer if post in self.wire.letters else None


def apns() -> Wired:
    made = apple()

    def token(device: Device) -> str:
        assert isinstance(device.address, AppleToken)
        return device.address.token

    return Wired(
        provider=made.sender,
        device=iphone,
        shows=lambda device: [*made.fake.phones[token(device)].shows.values()],
        rang=lambda device: made.fake.phones[token(device)].rang,
        clock=made.clock,
        wire=made.wire,
        words=Words(
            gone=lambda at: Reply(
                status=410, body=b'{"reason":"Unregistered","timestamp":%d}' % int(at.timestamp() * 1000)
            ),
            tells_when=True,
            too_large=Reply(status=413, body=b'{"reason":"PayloadTooLarge"}'),
            not_us=Reply(status=403, body=b'{"reason":"InvalidProviderToken"}'),
            busy=Reply(status=503, body=b'{"reason":"ServiceUnavailable"}'),
        ),
        id_of=lambda post: [value for name, value in post.headers if name in ("apns-id", "apns-collapse-id")],
    )


def fcm() -> Wired:
    return _firebase(android)


def fcm_by_installations() -> Wired:
    return _firebase(installation)


def _firebase(device: Callable[[int], Device]) -> Wired:
    made = google()

    def target(device: Device) -> str:
        assert isinstance(device.address, FirebaseToken | FirebaseInstallation)
        return device.address.token if isinstance(device.address, FirebaseToken) else device.address.fid

    return Wired(
        provider=made.sender,
        device=device,
        shows=lambda device: [*made.fake.phones[target(device)].shows.values()],
        rang=lambda device: made.fake.phones[target(device)].rang,
        clock=made.clock,
        wire=made.wire,
        words=Words(
            gone=lambda _: Reply(status=404, body=_error("NOT_FOUND", "UNREGISTERED")),
            tells_when=False,
            too_large=Reply(status=400, body=_error("INVALID_ARGUMENT", "INVALID_ARGUMENT")),
            not_us=Reply(status=403, body=_error("PERMISSION_DENIED", "")),
            busy=Reply(status=503, body=_error("UNAVAILABLE", "UNAVAILABLE")),
        ),
        id_of=lambda post: post.body,
    )


def webpush() -> Wired:
    made, browsers = World(), dict[int, Browser]()

    def browser(number: int) -> Browser:
        if number not in browsers:
            browsers[number] = made.browser()
        return browsers[number]

    return Wired(
        provider=made.sender,
        device=lambda number: subscribed(browser(number), number),
        shows=lambda device: [*made.phone(browser(device.member)).shows.values()],
        rang=lambda device: made.phone(browser(device.member)).rang,
        clock=made.clock,
        wire=made.wire,
        words=Words(
            gone=lambda _: Reply(status=410),
            tells_when=False,
            too_large=Reply(status=413),
            not_us=Reply(status=403, body=b"invalid JWT provided\n"),
            busy=Reply(status=503),
        ),
        id_of=lambda post: [post.path, *[value for name, value in post.headers if name == "topic"]],
    )


def _error(status: str, own: str) -> bytes:
    detail = f'{{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"{own}"}}'
    return f'{{"error":{{"status":"{status}","message":"no","details":[{detail}]}}}}'.encode()


SIDES: Sequence[Callable[[], Wired]] = [apns, fcm, fcm_by_installations, webpush]
WITHOUT_A_WIRE: Sequence[Callable[[], Side]] = []
