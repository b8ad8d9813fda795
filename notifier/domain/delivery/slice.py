"""Slices: shard runs of one burst and tier, the unit of queueing, claims and accounting."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import total_ordering
from typing import Self

from notifier.domain.audience.tiers import Tier
from notifier.domain.errors import BadSubject
from notifier.domain.ids import BurstKey, Platform
from notifier.domain.timing import REACH


class Step(StrEnum):
    """Step of a delivery: rows first, then alerts by provider."""

    ROWS = "rows"
    APNS = "push.apns"
    FCM = "push.fcm"
    WEB = "push.web"

    @property
    def platform(self) -> Platform:
        """Return the provider of a push step. Raises ValueError for rows."""
        return Platform(self.removeprefix("push."))

    @classmethod
    def of(cls, platform: Platform) -> "Step":
        return cls(f"push.{platform}")


PHONES = (Step.APNS, Step.FCM, Step.WEB)
"""Push steps."""


class Pool(StrEnum):
    """Worker pools. Each has its own queue and processes, so a stalled provider delays no rows and no other alerts."""

    P0 = "p0"
    P1 = "p1"
    P2 = "p2"
    APNS = "push.apns"
    FCM = "push.fcm"
    WEB = "push.web"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTerms:
    """Time limits for slices of a pool."""

    claim: timedelta
    """Lease of a worker; renewed when a third of it has passed."""
    unclaimed: timedelta
    """A slice that was queued but not claimed for this long is queued again."""
    worth: timedelta
    """Age of the burst at which a slice is left to the pull path."""


HAND_BACK_AFTER = timedelta(seconds=60)
"""A worker that can't finish a slice in this time hands it back with a checkpoint."""
TURN = timedelta(seconds=1)
"""The same for push slices other than P0's. VIP alerts pass all waiting slices, so they wait only for running ones."""

_PHONES = PoolTerms(claim=timedelta(seconds=30), unclaimed=timedelta(seconds=10), worth=REACH)
"""Limits of push pools.

The lease is longer than the timeouts for a connection and an answer, since a worker can't renew it while it waits for
a provider. Alerts that waited through quiet hours are still sent, as one summary.
"""

TERMS = {
    # Celery on Redis loses tasks on SIGKILL, so the lease decides how soon a lost slice resumes.
    Pool.P0: PoolTerms(claim=timedelta(seconds=1.5), unclaimed=timedelta(seconds=3), worth=timedelta(hours=1)),
    Pool.P1: PoolTerms(claim=timedelta(seconds=3), unclaimed=timedelta(seconds=5), worth=timedelta(hours=2)),
    Pool.P2: PoolTerms(claim=timedelta(seconds=30), unclaimed=timedelta(seconds=60), worth=timedelta(hours=6)),
    Pool.APNS: _PHONES,
    Pool.FCM: _PHONES,
    Pool.WEB: _PHONES,
}


@total_ordering
@dataclass(frozen=True, slots=True)
class Slice:
    """A unit of work, written `mention:nova#12/rows/p1/0-63`. Every retry of the same work has the same slice."""

    burst: BurstKey
    step: Step
    tier: Tier
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.burst}/{self.step}/{self.tier}/{self.first}-{self.last}"

    def __lt__(self, other: "Slice") -> bool:
        return (self.burst, self.step, self.tier, self.first) < (other.burst, other.step, other.tier, other.first)

    @property
    def pool(self) -> Pool:
        return Pool(self.tier) if self.step is Step.ROWS else Pool(self.step)

    @property
    def passes(self) -> bool:
        """Return whether it goes before all others of its pool, as push slices of P0 do. Rows have a pool per tier."""
        return self.step is not Step.ROWS and self.tier is Tier.P0

    @property
    def turn(self) -> timedelta:
        """Return how long a worker may run the slice before it hands it back."""
        return HAND_BACK_AFTER if self.step is Step.ROWS or self.passes else TURN

    @property
    def rows(self) -> "Slice":
        """Return the rows slice of the same members, which must finish before alerts are sent.

        Dormant members follow the rows of P2: once those are done, the audience snapshot exists.
        """
        tier = Tier.P2 if self.tier is Tier.DORMANT else self.tier
        return Slice(self.burst, Step.ROWS, tier, self.first, self.last)

    @property
    def terms(self) -> PoolTerms:
        return TERMS[self.pool]

    @property
    def shards(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def width(self) -> int:
        return len(self.shards)

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            burst, step, tier, shards = text.rsplit("/", 3)
            first, last = shards.split("-")
            return cls(BurstKey.parse(burst), Step(step), Tier(tier), int(first), int(last))
        except ValueError as error:
            raise BadSubject(text) from error


# Result of one attempt at a slice, as reported to the worker host.


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    people: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """Not finished: the dispatcher queues the slice again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    cause: str


Outcome = Done | Again | Dead
