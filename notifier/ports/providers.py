"""A provider: Apple, Google or a browser's push service, that rings a person's devices."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Receipt


class Provider(Protocol):
    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[tuple[Device, Receipt]]:
        """Each device with what became of its alert, in the order in which that is known; devices are taken as there is
        room for them on their way.

        Blocks. Never waits to try again, and never tries again by itself what may have arrived: that is the caller's,
        who sends it with the same ids. Raises nothing for what a provider does.
        """
        ...
