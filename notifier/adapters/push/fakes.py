"""All push services as one of this machine: what is for any of them goes to the fake that stands for them."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from notifier.adapters.push.requests import DeviceReceipt
from notifier.domain.errors import BadSetting
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import ConfigError
from notifier.ports.push import Post, Provider, Reply, Silence, Transport


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

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[DeviceReceipt]:
        trouble = ConfigError(reason=self.reason)
        return ((device, trouble) for device in devices)


# A provider that is made by the first send of a process, so that keys and connections are that process's alone.

Make = Callable[[ExitStack], Provider]
"""What it opens it leaves on the stack. Raises BadSetting."""


@dataclass(slots=True, kw_only=True)
class Late:
    """A Provider. Where it can't be made, that is each device's receipt, and the next alert tries anew: a file that was
    mended is read then."""

    make: Make
    process: Callable[[], int] = os.getpid
    _made: Provider | None = None
    _maker: int = -1
    _opened: ExitStack = field(default_factory=ExitStack)

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[DeviceReceipt]:
        try:
            provider = self._own()
        except BadSetting as error:
            trouble = ConfigError(reason=error.detail)
            yield from ((device, trouble) for device in devices)
            return
        yield from provider.send(alert, devices)

    def close(self) -> None:
        """What this process has opened. A parent's goes on with it."""
        if self._maker == self.process():
            self._opened.close()
        self._made = None

    def _own(self) -> Provider:
        if self._made is None or self._maker != self.process():
            # A process that was forked has a copy of what its parent goes on using.
            opened = ExitStack()
            with opened:
                self._made = self.make(opened)
                self._opened, self._maker = opened.pop_all(), self.process()
        return self._made
