"""Three push services with browsers, and a Web Push sender for them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec

from notifier.adapters.push.webpush.encrypted_message import MessageKeyPair
from notifier.adapters.push.webpush.sender import WebPushSender
from notifier.adapters.push.webpush.vapid import Vapid
from notifier.devkit.fake_providers.behavior import ProviderScript
from notifier.devkit.fake_providers.fake_browser import Browser
from notifier.devkit.fake_providers.fake_devices import FakePhone
from notifier.devkit.fake_providers.webpush import FakePushService
from notifier.devkit.fake_providers.webpush_refusals import RefusalDialect
from notifier.domain.ids import Member
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device
from notifier.domain.push.device_validation import PushServices
from notifier.domain.push.receipt import Receipt
from notifier.ports.push import NoReply, Post, Reply
from tests.support.apns_and_fcm_senders import ALERT, LONG_AGO, Wire, sent
from tests.support.domain_examples import NOON
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.push_credentials import apple_key, pem

ORIGINS = {
    RefusalDialect.GOOGLE: "https://fcm.googleapis.com",
    RefusalDialect.APPLE: "https://web.push.apple.com",
    RefusalDialect.MOZILLA: "https://updates.push.services.mozilla.com",
}
Resolver = Callable[[str, int], Sequence[str]]


def vapid(number: int = 7) -> Vapid:
    return Vapid.read(pem(apple_key(number)), subject="mailto:ops@example.org")


def same_salt(length: int) -> bytes:
    return bytes(range(length))


def device(browser: Browser, member: int = 1, locale: str = "en") -> Device:
    return Device(member=Member(member), address=browser.subscription, locale=locale, registered_at=LONG_AGO)


@dataclass
class WebPushSetup:
    """A Web Push sender with a push service of each dialect."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(NOON))
    services: dict[RefusalDialect, FakePushService] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 10_000)))
    wire: Wire = field(init=False)
    sender: WebPushSender = field(init=False)

    def __post_init__(self) -> None:
        for dialect, origin in ORIGINS.items():
            self.services[dialect] = FakePushService(clock=self.clock, origin=origin, dialect=dialect)
        self.wire = Wire(self.answer)
        self.sender = WebPushSender(
            transport=self.wire,
            vapid=vapid(),
            services=PushServices(),
            clock=self.clock,
            random=lambda: 0.5,
            new_key_pair=lambda: MessageKeyPair.of(ec.derive_private_key(next(self.numbers), ec.SECP256R1())),
            random_bytes=same_salt,
        )

    @property
    def posts(self) -> list[Post]:
        return self.wire.sent

    def answer(self, post: Post) -> Reply | NoReply:
        [service] = [candidate for candidate in self.services.values() if f"{candidate.origin}:443" == post.origin]
        return service.answer(post)

    def browser(self, dialect: RefusalDialect = RefusalDialect.GOOGLE, *, key: str | None = None) -> Browser:
        return self.services[dialect].subscribe(key if key is not None else self.sender.vapid.public_key)

    def phone(self, browser: Browser) -> FakePhone:
        """Return the phone of a browser: what it shows and how often it rang."""
        [service] = [candidate for candidate in self.services.values() if browser.endpoint.startswith(candidate.origin)]
        return service.phones[browser.endpoint.removeprefix(service.origin)]

    def script(self, script: ProviderScript, dialect: RefusalDialect = RefusalDialect.GOOGLE) -> None:
        self.services[dialect].script = script

    def send(self, *devices: Device, alert: Alert = ALERT) -> Sequence[Receipt]:
        return sent(self.sender, alert, *devices)


@dataclass(frozen=True, slots=True)
class ResolvingTransport:
    """A transport that resolves the host of each post like a real one, and records where it connects."""

    resolve: Resolver
    answer: Callable[[Post], Reply | NoReply]
    connected: list[str] = field(default_factory=list)

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | NoReply]]:
        for post in posts:
            host, _, port = post.origin.rpartition("//")[2].rpartition(":")
            try:
                self.connected.append(self.resolve(host, int(port))[0])
            except OSError as error:
                yield post, NoReply(reason=str(error), may_have_arrived=False)
            else:
                yield post, self.answer(post)
