"""The providers that keep the contract, each with the phones behind it and its own words for what may happen.

Another one is a function more in SIDES; one that has no wire goes into WITHOUT_A_WIRE.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from notifier.devkit.fake_providers.browser import Browser
from notifier.domain.push.device import AppleToken, Device, FirebaseInstallation, FirebaseToken
from notifier.ports.push import Post, Provider, Reply, Silence
from tests.support.fakes.clock import ManualClock
from tests.support.firebase_process import by_firebase_admin
from tests.support.push_browsers import World
from tests.support.push_browsers import device as subscribed
from tests.support.push_builders import Google, Wire, android, apple, google, installation, iphone


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
    amid_others: Sequence[Silence] = (Silence(reason="cut", left=True), Silence(reason="no way", left=False))
    """What may become of a letter while others are answered."""

    def goes_silent(self, *, left: bool) -> str:
        """From here on, and why, in the words of who sends."""
        silence = Silence(reason="cut" if left else "no way", left=left)
        self.says(silence)
        return silence.reason

    def says(self, answer: Reply | Silence) -> None:
        """To every letter from here on."""
        self.wire.instead = lambda post: answer if post in self.wire.letters else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHttp(Wired):
    """On a line to a server of its own."""

    hang_up: Callable[[], None]

    def goes_silent(self, *, left: bool) -> str:
        if left:
            self.says(Silence(reason="", left=True))
            return "the connection broke"
        self.hang_up()
        return "it can't be reached"


def apns(ahead: int = 1) -> Wired:
    made = apple()
    made.wire.ahead = ahead

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


def fcm(ahead: int = 1) -> Wired:
    return _firebase(google(), Wired, android, ahead)


def fcm_by_installations(ahead: int = 1) -> Wired:
    return _firebase(google(), Wired, installation, ahead)


def firebase_admin(ahead: int = 1) -> Wired:
    made = by_firebase_admin(ahead)
    kind = partial(ByHttp, hang_up=made.hang_up, amid_others=[Silence(reason="", left=True)])
    return _firebase(made, kind, alternately, ahead)


def alternately(number: int) -> Device:
    return installation(number) if number % 2 else android(number)


def _firebase(made: Google, kind: Callable[..., Wired], device: Callable[[int], Device], ahead: int) -> Wired:
    made.wire.ahead = ahead

    def target(device: Device) -> str:
        assert isinstance(device.address, FirebaseToken | FirebaseInstallation)
        return device.address.token if isinstance(device.address, FirebaseToken) else device.address.fid

    return kind(
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


def webpush(ahead: int = 1) -> Wired:
    made, browsers = World(), dict[int, Browser]()
    made.wire.ahead = ahead

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


SIDES: Sequence[Callable[[int], Wired]] = [apns, fcm, fcm_by_installations, firebase_admin, webpush]
WITHOUT_A_WIRE: Sequence[Callable[[int], Side]] = []
