"""Where nobody said by which key alerts are sent: none is, no device is to blame, and the reason says what to set."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from notifier.adapters.push.letters import Outcome
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfigured:
    """A Provider."""

    reason: str

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[Outcome]:
        trouble = ConfigError(reason=self.reason)
        return ((device, trouble) for device in devices)
