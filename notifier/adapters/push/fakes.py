"""All push services as one of this machine: what is for any of them goes to the fake that stands for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from notifier.adapters.push.requests import Outcome
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import ConfigError
from notifier.ports.http2 import Post, Reply, Silence, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerouted:
    """A Transport. Posts come back as they were sent, with the fake's origin. Whom they are for still stands in their
    authorization."""

    transport: Transport
    origin: str

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | Silence]]:
        return self.transport.exchange(replace(post, origin=self.origin) for post in posts)


# Where nobody said by which key alerts are sent: none is, no device is to blame, and the reason says what to set.


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfigured:
    """A Provider."""

    reason: str

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[Outcome]:
        trouble = ConfigError(reason=self.reason)
        return ((device, trouble) for device in devices)
