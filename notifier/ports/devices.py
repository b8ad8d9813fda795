"""Which devices people have: the rows that alerts are sent by, and from which the bitmap of who has one is made."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Device, DeviceId, DeviceWord, Holding


class Devices(Protocol):
    """Durable. Everything raises StoreUnavailable, and Full where it writes; whoever writes again writes the same.

    A device has one holder: the member whose registration ranks highest of all that was said of it, or nobody, where
    what ranks highest is that it is gone. A registration ends by itself KEPT after its moment.
    """

    def write(self, words: Collection[DeviceWord]) -> None:
        """In any order, any number of times, beside others who write of the same devices.

        When it returns, whoever held one of these devices by a word that ranks lower holds it no more, in whatever is
        read from then on. Cut off on the way, it is so of some; nobody has got a device before all who held it by what
        was known have lost it.
        """
        ...

    def standing(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, Holding]:
        """What ranks highest of each; without those of which nothing is known."""
        ...

    def of(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        """All that each of them holds, by platform and id; without those who hold none."""
        ...

    def reached(self, platform: Platform, shard: int, people: Bits) -> Iterator[Device]:
        """Those of the shard's members named by the bitmap, in the members' order: read by ranges of their blocks, and
        never person by person. A few blocks at a time are in memory."""
        ...

    def people(self, shard: int) -> Bits:
        """Everybody of the shard who holds a device, by the same rows."""
        ...
