"""Small things that may be forgotten at any moment: fast duplicate answers, token buckets, the backpressure flag."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Protocol

from notifier.domain.bursts.mention import EventId
from notifier.domain.delivery.backlog import Behind
from notifier.domain.delivery.slice import Pool
from notifier.domain.token_bucket import BucketLimit


class Recent(Protocol):
    """Event ids of the last day, each with the digest of its body. Raises CacheUnavailable."""

    def digests(self, events: Collection[EventId]) -> Mapping[EventId, str]:
        """Of those that are remembered, in one round trip; one that can't be read isn't."""
        ...

    def remember(self, digests: Mapping[EventId, str]) -> None:
        """To be called once the events are in the log; of two bodies of one id the first is kept."""
        ...

    def recall(self, source: str | None, id: str) -> bool:
        """Whether such an event was accepted lately; of any source when none is named."""
        ...


class Buckets(Protocol):
    """Token buckets shared by all processes, by the server's clock; a bucket that was lost is full again.

    Not idempotent: a repeated call takes the tokens twice. Each call is one round trip. Raises CacheUnavailable, and
    then the tokens may be taken or not.
    """

    def take(self, name: str, limit: BucketLimit) -> bool:
        """Take one token; False when none is left."""
        ...

    def spend(self, spent: Mapping[str, int], limit: BucketLimit) -> Mapping[str, float]:
        """Take tokens that were given away already, and return what each bucket has left.

        The result is negative where several processes gave away the same tokens, at most as deep as a full bucket.
        """
        ...


class Pressure(Protocol):
    """The monitor's word to the dispatcher. Raises CacheUnavailable."""

    def raise_to(self, level: float, lasting: timedelta) -> None:
        """0 is no pressure, 1 stops P2; forgotten after `lasting`, so that a dead monitor holds nobody back."""
        ...

    def level(self) -> float:
        """0 when nothing was said lately, or nothing that can be read."""
        ...


class BacklogReport(Protocol):
    """The dispatcher's word on how much waits in the ledger. Raises CacheUnavailable."""

    def tell(self, behind: Mapping[Pool, Behind], lasting: timedelta) -> None:
        """Forgotten after `lasting`."""
        ...

    def told(self) -> Mapping[Pool, Behind]:
        """Empty when nothing was said lately, or nothing that can be read."""
        ...
