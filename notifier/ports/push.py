"""The alert on the phone: who sends it, who is to be spared it, and the durable record of what was sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.alert import Alert
from notifier.domain.audience import Tier
from notifier.domain.bits import Bits
from notifier.domain.burst import Burst
from notifier.domain.subject import BurstKey, Member


class Sender(Protocol):
    def send(self, alert: Alert, members: Sequence[Member]) -> None:
        """Hands the alert over for all of them, in this order; for nobody, nothing.

        Blocks until it is taken. Not idempotent: given twice it arrives twice, with the same collapse id. Raises
        Unavailable or Full when none was taken.
        """
        ...


class Spared(Protocol):
    """Whose phone stays silent: what people did since the seal, read in ranges and never person by person."""

    def read(self, burst: Burst, shard: int, now: datetime) -> Bits:
        """Of the shard's members who follow the burst's subject, or followed it once, those to whom it isn't pushable
        now, and those whose account was deleted.

        Says nothing about others: a seal never names them. Reads what stands now, in one look; the cost grows with
        those who have such a fact (a mark, a block of the opener or the account, a later follow, a mute, a word of
        everything), not with the shard. Raises StoreUnavailable: without an answer no phone may ring.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One shard's window of sends."""

    burst: BurstKey
    tier: Tier
    shard: int


class Sent(Protocol):
    """Durable; one writer, the holder of the slice's claim. Raises StoreUnavailable or Full."""

    def intend(self, sending: Sending) -> bool:
        """To be called before sending; False when the window's outcome is known, so that it is never sent again."""
        ...

    def outcome(self, sending: Sending, sent: int) -> None:
        """To be called after sending; a window with an intent and no outcome was in flight at a crash."""
        ...
