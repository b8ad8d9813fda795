"""Phones in memory: a provider of every platform, and every alert that arrived, in order."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta

from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device, DeviceId
from notifier.domain.push.receipt import Accepted, Receipt, RetryAt, Unknown
from notifier.ports.clock import Clock

SOON = timedelta(seconds=10)


class MemoryPhones:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.arrived: list[tuple[Alert, Device]] = []
        self.away = False
        """While it is, nothing is taken."""
        self.says: dict[DeviceId, list[Receipt]] = defaultdict(list)
        """What is answered of a device, one after the other; then it is accepted. What is unknown has arrived."""

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[tuple[Device, Receipt]]:
        for device in devices:
            yield device, self.ring(alert, device)

    def ring(self, alert: Alert, device: Device) -> Receipt:
        if self.away:
            return RetryAt(at=self._clock.now() + SOON, reason="away, for a test")
        said = self.says[device.id].pop(0) if self.says[device.id] else Accepted()
        if isinstance(said, (Accepted, Unknown)):
            self.arrived.append((alert, device))
        return said
