"""The alert on the phone: who is to be spared it, and the durable record of what was sent."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from notifier.domain.audience.bitmap import Bits, nobody
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey
from notifier.domain.push.device import Platform
from notifier.domain.push.send_log import Sending, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Spare:
    """Of one shard's members; those of whom it says nothing may be alerted now."""

    never: Bits = field(default_factory=nobody)
    """To whom it isn't pushable, nor will be."""
    asleep: Bits = field(default_factory=nobody)
    """Others, who have quiet hours now."""
    until: datetime | None = None
    """When to look again: as the first of those end, or at the quarter of an hour that follows."""


class Spared(Protocol):
    """Whose phone stays silent: what people did since the seal, read in ranges and never person by person."""

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, Spare]:
        """Of each shard's members who follow the burst's subject, or followed it once, those to whom it isn't pushable
        now, and those whose account was deleted. Who sleeps and is to be spared for another reason, too, is told of
        as one who is never alerted.

        Says nothing about others: a seal never names them. Reads what stands now, of all shards together; the cost
        grows with those who have such a fact (a mark, a block of the opener or the account, a later follow, a mute, a
        word of everything), not with the shards. Raises StoreUnavailable: without an answer no phone may ring.
        """
        ...


class Sent(Protocol):
    """Durable for as long as a burst may be delivered. One writer of each sending, the holder of the slice's claim.
    Raises StoreUnavailable, and Full where it writes."""

    def read(self, burst: BurstKey, platform: Platform, shards: Collection[int]) -> Mapping[Sending, Sequence[Window]]:
        """The windows of those shards' sendings, of every tier, in their order; without sendings that have none."""
        ...

    def intend(self, windows: Sequence[tuple[Sending, Window]]) -> Sequence[bool]:
        """To be called before they are sent: writes each unless its sending has one of this number, and says which were
        written. One that wasn't is another's: the caller has lost the claim."""
        ...

    def close(self, windows: Sequence[tuple[Sending, Window]]) -> None:
        """To be called after they were sent, with what was missed. Said again, the last word stands."""
        ...
