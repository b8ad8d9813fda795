"""`ssrf_blocked`: neither registered endpoints nor resolved names lead into our own networks."""

import random
import socket
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

from benchmarks.fanout.measured_notifier import FanoutStage
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.http2 import Http2Transport
from notifier.adapters.push import public_test_credentials
from notifier.adapters.push.webpush import Resolver, WebPushSender, guarded
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.check.http_client import HttpClient
from notifier.devkit.fake_providers.fake_devices import ENDPOINT_PATH_PREFIX, PUSH_SERVICE_ORIGIN, fixture_subscription
from notifier.devkit.fixture.world import user
from notifier.devkit.http2.server import serving
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Member
from notifier.domain.push.alert import Alert, burst_alert
from notifier.domain.push.device import Device, WebSubscription
from notifier.domain.push.device_validation import PushServices
from notifier.domain.push.receipt import Accepted
from notifier.ports.push import Post, Reply

NAME = "ssrf_blocked"
MEMBER = Member(1)
FORGED_ENDPOINTS = (
    *(
        "http://127.0.0.1:{port}/x",
        "https://127.0.0.1:{port}/x",
        "https://localhost:{port}/x",
        "https://[::1]:{port}/x",
    ),
    *("https://10.0.0.1/x", "https://169.254.169.254/latest/meta-data", "https://metadata.google.internal/x"),
    *(
        "https://updates.push.services.mozilla.com@127.0.0.1:{port}/x",
        "https://updates.push.services.mozilla.com:{port}/x",
    ),
    *("https://updates.push.services.mozilla.com.example/x", "http://updates.push.services.mozilla.com/x"),
)
PRIVATE_ADDRESSES: Sequence[Sequence[str]] = (
    *(["127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["10.0.0.1"], ["192.168.1.1"], ["169.254.169.254"], ["fd00::1"]),
    ["142.250.74.10", "10.0.0.1"],
)
"""Addresses to which the name of a push service resolves."""
PUBLIC_ADDRESS = "142.250.74.10"


@dataclass(slots=True)
class Trap:
    """A listening socket that must get no connection."""

    line: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def port(self) -> int:
        return int(self.line.getsockname()[1])

    def caught(self) -> int:
        self.line.setblocking(False)
        count = 0
        with suppress(BlockingIOError):
            while True:
                self.line.accept()[0].close()
                count += 1
        return count


def blocked(stage: FanoutStage, burst: Burst) -> Finding:
    """Check registration on the running notifier, then resolution and redirects with its sender."""
    trap = Trap()
    with closing(trap.line):
        wrong = [
            *_registered(stage, trap.port),
            *rebound(burst_alert(burst)),
            *redirected(burst_alert(burst), trap.port),
        ]
        if caught := trap.caught():
            wrong.append(f"{caught} connections reached our own network")
    return no_errors(NAME, wrong, n=len(FORGED_ENDPOINTS) + len(PRIVATE_ADDRESSES) + 2)


def _registered(stage: FanoutStage, port: int) -> Iterator[str]:
    wire = HttpClient(url=stage.instance.url, bearer=stage.token(user(MEMBER)))
    keys = fixture_subscription(PUSH_SERVICE_ORIGIN, MEMBER)
    keys_body = {"p256dh": _base64(keys.key), "auth": _base64(keys.secret)}
    for endpoint in [forged.format(port=port) for forged in FORGED_ENDPOINTS]:
        answer = wire.put("/v1/devices", {"platform": "web", "subscription": {"endpoint": endpoint, "keys": keys_body}})
        if not 400 <= answer.status < 500:
            yield f"{endpoint} was answered with {answer.status}"
    good = {"endpoint": f"{PUSH_SERVICE_ORIGIN}{ENDPOINT_PATH_PREFIX}{MEMBER}", "keys": keys_body}
    answer = wire.put("/v1/devices", {"platform": "web", "subscription": good})
    if answer.status != 200:  # otherwise the rejections prove nothing
        yield f"a browser's own endpoint was answered with {answer.status}"
    wire.close()


def rebound(alert_: Alert) -> Iterator[str]:
    """Check that a private address gets no request, however the name resolves and whatever it resolved to before."""
    services = PushServices()
    for leads_to in PRIVATE_ADDRESSES:
        moves, passed = iter([[PUBLIC_ADDRESS], leads_to]), list[Sequence[str]]()
        resolve = guarded(lambda host, port, m=moves: next(m), services)  # type: ignore[misc] # bound now
        if list(resolve("updates.push.services.mozilla.com", 443)) != [PUBLIC_ADDRESS]:
            yield f"{PUBLIC_ADDRESS} is not public"
        with closing(Http2Transport(resolver=_recording(resolve, passed))) as transport:
            [(_, receipt)] = _sender(transport, services).send(alert_, [_device(PUSH_SERVICE_ORIGIN)])
        if passed or isinstance(receipt, Accepted):
            yield f"a name that resolves to {leads_to} got {receipt}"


def _recording(resolve: Resolver, passed: list[Sequence[str]]) -> Resolver:
    def resolved(host: str, port: int) -> Sequence[str]:
        resolved_addresses = resolve(host, port)
        passed.append(resolved_addresses)
        return resolved_addresses

    return resolved


def redirected(alert_: Alert, port: int) -> Iterator[str]:
    """Check a redirect from a push service on this machine, as in development."""
    services = PushServices(allows_loopback=True, is_production=False)

    def elsewhere(post: Post) -> Reply:
        return Reply(status=307, headers={"location": f"http://127.0.0.1:{port}/internal"})

    with serving(elsewhere) as server, closing(Http2Transport(allow_plaintext=True)) as transport:
        [(_, receipt)] = _sender(transport, services).send(alert_, [_device(server.origin)])
    if isinstance(receipt, Accepted):
        yield "a redirect was accepted as a response"


def _sender(transport: Http2Transport, services: PushServices) -> WebPushSender:
    clock = SystemClock()
    return WebPushSender(
        transport=transport,
        vapid=public_test_credentials.fake_vapid(),
        services=services,
        clock=clock,
        random=random.random,
    )


def _device(origin: str) -> Device:
    address: WebSubscription = fixture_subscription(origin, MEMBER)
    return Device(member=MEMBER, address=address, registered_at=SystemClock().now())


def _base64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
