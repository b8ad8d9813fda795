"""Push providers that pass the contract, each with fake phones behind it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from notifier.devkit.fake_providers.fake_browser import Browser
from notifier.domain.push.device import AppleToken, Device, FirebaseInstallation, FirebaseToken
from notifier.ports.push import NoReply, Post, Provider, Reply
from tests.support.apns_and_fcm_senders import Google, Wire, android, apple, google, installation, iphone
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.firebase_admin_connection import by_firebase_admin
from tests.support.web_push_browsers import WebPushSetup
from tests.support.web_push_browsers import device as subscribed


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderReplies:
    """Responses of this provider for each outcome."""

    unregistered: Callable[[datetime], Reply]
    gives_time: bool
    too_large: Reply
    unauthorized: Reply
    busy: Reply
    """Without a retry time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCase:
    provider: Provider
    device: Callable[[int], Device]
    shows: Callable[[Device], Sequence[str]]
    alert_count: Callable[[Device], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireProviderCase(ProviderCase):
    clock: ManualClock
    wire: Wire
    replies: ProviderReplies
    id_of: Callable[[Post], object]
    """Identity of a post: two posts with the same value are one to the phone or the provider."""
    silences_in_batch: Sequence[NoReply] = (
        NoReply(reason="cut", may_have_arrived=True),
        NoReply(reason="no way", may_have_arrived=False),
    )
    """Silences that may happen to a post while others in its batch are answered."""

    def go_silent(self, *, sent: bool) -> str:
        """Make the provider silent after or before posts are sent, and return the reason that the sender reports."""
        silence = NoReply(reason="cut" if sent else "no way", may_have_arrived=sent)
        self.answer_all(silence)
        return silence.reason

    def answer_all(self, answer: Reply | NoReply) -> None:
        """Return this for every post from now on."""
        self.wire.override = lambda post: answer if post in self.wire.pushes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProviderCase(WireProviderCase):
    """A provider connected to a server of its own by HTTP."""

    hang_up: Callable[[], None]

    def go_silent(self, *, sent: bool) -> str:
        if sent:
            self.answer_all(NoReply(reason="", may_have_arrived=True))
            return "the connection failed"
        self.hang_up()
        return "can't connect"


def apns(in_flight: int = 1) -> WireProviderCase:
    built = apple()
    built.wire.in_flight = in_flight

    def token(device: Device) -> str:
        assert isinstance(device.address, AppleToken)
        return device.address.token

    return WireProviderCase(
        provider=built.sender,
        device=iphone,
        shows=lambda device: [*built.fake.phones[token(device)].shown.values()],
        alert_count=lambda device: built.fake.phones[token(device)].alert_count,
        clock=built.clock,
        wire=built.wire,
        replies=ProviderReplies(
            unregistered=lambda at: Reply(
                status=410, body=b'{"reason":"Unregistered","timestamp":%d}' % int(at.timestamp() * 1000)
            ),
            gives_time=True,
            too_large=Reply(status=413, body=b'{"reason":"PayloadTooLarge"}'),
            unauthorized=Reply(status=403, body=b'{"reason":"InvalidProviderToken"}'),
            busy=Reply(status=503, body=b'{"reason":"ServiceUnavailable"}'),
        ),
        id_of=lambda post: [value for name, value in post.headers if name in ("apns-id", "apns-collapse-id")],
    )


def fcm(in_flight: int = 1) -> WireProviderCase:
    return _firebase(google(), WireProviderCase, android, in_flight)


def fcm_by_installations(in_flight: int = 1) -> WireProviderCase:
    return _firebase(google(), WireProviderCase, installation, in_flight)


def firebase_admin(in_flight: int = 1) -> WireProviderCase:
    built = by_firebase_admin(in_flight)
    kind = partial(
        HttpProviderCase, hang_up=built.hang_up, silences_in_batch=[NoReply(reason="", may_have_arrived=True)]
    )
    return _firebase(built, kind, alternately, in_flight)


def alternately(number: int) -> Device:
    return installation(number) if number % 2 else android(number)


def _firebase(
    built: Google, kind: Callable[..., WireProviderCase], device: Callable[[int], Device], in_flight: int
) -> WireProviderCase:
    built.wire.in_flight = in_flight

    def target(device: Device) -> str:
        assert isinstance(device.address, FirebaseToken | FirebaseInstallation)
        return device.address.token if isinstance(device.address, FirebaseToken) else device.address.fid

    return kind(
        provider=built.sender,
        device=device,
        shows=lambda device: [*built.fake.phones[target(device)].shown.values()],
        alert_count=lambda device: built.fake.phones[target(device)].alert_count,
        clock=built.clock,
        wire=built.wire,
        replies=ProviderReplies(
            unregistered=lambda _: Reply(status=404, body=_error("NOT_FOUND", "UNREGISTERED")),
            gives_time=False,
            too_large=Reply(status=400, body=_error("INVALID_ARGUMENT", "INVALID_ARGUMENT")),
            unauthorized=Reply(status=403, body=_error("PERMISSION_DENIED", "")),
            busy=Reply(status=503, body=_error("UNAVAILABLE", "UNAVAILABLE")),
        ),
        id_of=lambda post: post.body,
    )


def webpush(in_flight: int = 1) -> WireProviderCase:
    built, browsers = WebPushSetup(), dict[int, Browser]()
    built.wire.in_flight = in_flight

    def browser(number: int) -> Browser:
        if number not in browsers:
            browsers[number] = built.browser()
        return browsers[number]

    return WireProviderCase(
        provider=built.sender,
        device=lambda number: subscribed(browser(number), number),
        shows=lambda device: [*built.phone(browser(device.member)).shown.values()],
        alert_count=lambda device: built.phone(browser(device.member)).alert_count,
        clock=built.clock,
        wire=built.wire,
        replies=ProviderReplies(
            unregistered=lambda _: Reply(status=410),
            gives_time=False,
            too_large=Reply(status=413),
            unauthorized=Reply(status=403, body=b"invalid JWT provided\n"),
            busy=Reply(status=503),
        ),
        id_of=lambda post: [post.path, *[value for name, value in post.headers if name == "topic"]],
    )


def _error(status: str, own: str) -> bytes:
    detail = f'{{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"{own}"}}'
    return f'{{"error":{{"status":"{status}","message":"no","details":[{detail}]}}}}'.encode()


# Add a new provider here, or to the list below if it has no wire.
WIRE_PROVIDERS: Sequence[Callable[[int], WireProviderCase]] = [apns, fcm, fcm_by_installations, firebase_admin, webpush]
PROVIDERS_WITHOUT_WIRE: Sequence[Callable[[int], ProviderCase]] = []
