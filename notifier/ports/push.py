"""The alert on the phone: who sends it, and the durable record of what was sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from notifier.domain.alert import Alert
from notifier.domain.audience import Tier
from notifier.domain.subject import BurstKey, Member


class Sender(Protocol):
    def send(self, alert: Alert, members: Sequence[Member]) -> None:
        """Hands the alert over for all of them, in this order. Raises Unavailable when none was taken."""
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
