"""Slices: consecutive shards of one burst, tier and step; the unit of work."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import total_ordering
from typing import Self

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_due_times_alert_ages import PUSH_LIFETIME
from notifier.domain.errors import BadSubject
from notifier.domain.ids import BurstKey, Platform


class Step(StrEnum):
    """Step of a delivery: the rows, or the alerts of one provider."""

    ROWS = "rows"
    APNS = "push.apns"
    FCM = "push.fcm"
    WEB = "push.web"

    @property
    def platform(self) -> Platform:
        """Return the provider of a push step. Raises ValueError for rows."""
        return Platform(self.removeprefix("push."))

    @classmethod
    def for_platform(cls, platform: Platform) -> "Step":
        return cls(f"push.{platform}")


PUSH_STEPS = (Step.APNS, Step.FCM, Step.WEB)


class Pool(StrEnum):
    """Worker pools. Each has its own queue and processes, so a stalled provider delays no other pool."""

    P0 = "p0"
    P1 = "p1"
    P2 = "p2"
    APNS = "push.apns"
    FCM = "push.fcm"
    WEB = "push.web"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTiming:
    lease: timedelta
    """Length of a worker's lease, which is renewed when a third of it has passed."""
    requeue_after: timedelta
    """Time after which a slice that was queued but not claimed is queued again."""
    expires_after: timedelta
    """Age of the burst at which its slices expire: rows are left to the pull path, and alerts are not sent."""


TIME_SHARE = timedelta(seconds=60)
"""Time after which a worker hands an unfinished slice back."""
PUSH_TIME_SHARE = timedelta(seconds=1)
"""Time share of push slices of tiers other than P0.

Alerts of P0 (VIPs) pass all waiting slices, and wait only for running ones. A short share keeps that wait short.
"""

_PUSH_TIMING = PoolTiming(lease=timedelta(seconds=30), requeue_after=timedelta(seconds=10), expires_after=PUSH_LIFETIME)
"""A worker can't renew its lease while it connects to a provider or waits for an answer.

So the lease is longer than both timeouts together. Slices expire late, because alerts may wait through quiet hours.
"""

POOL_TIMINGS = {
    # Celery on Redis loses tasks on SIGKILL, so the lease decides how soon a lost slice resumes.
    Pool.P0: PoolTiming(
        lease=timedelta(seconds=1.5), requeue_after=timedelta(seconds=3), expires_after=timedelta(hours=1)
    ),
    Pool.P1: PoolTiming(
        lease=timedelta(seconds=3), requeue_after=timedelta(seconds=5), expires_after=timedelta(hours=2)
    ),
    Pool.P2: PoolTiming(
        lease=timedelta(seconds=30), requeue_after=timedelta(seconds=60), expires_after=timedelta(hours=6)
    ),
    Pool.APNS: _PUSH_TIMING,
    Pool.FCM: _PUSH_TIMING,
    Pool.WEB: _PUSH_TIMING,
}


@total_ordering
@dataclass(frozen=True, slots=True)
class Slice:
    """A unit of work, written `mention:nova#12/rows/p1/0-63`."""

    burst: BurstKey
    step: Step
    tier: Tier
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.burst}/{self.step}/{self.tier}/{self.first}-{self.last}"

    def __lt__(self, right: "Slice") -> bool:
        return (self.burst, self.step, self.tier, self.first) < (right.burst, right.step, right.tier, right.first)

    @property
    def pool(self) -> Pool:
        return Pool(self.tier) if self.step is Step.ROWS else Pool(self.step)

    @property
    def has_priority(self) -> bool:
        """Return whether the slice goes before all others of its pool."""
        return self.step is not Step.ROWS and self.tier is Tier.P0

    @property
    def time_share(self) -> timedelta:
        """Return how long a worker may run the slice before handing it back."""
        return TIME_SHARE if self.step is Step.ROWS or self.has_priority else PUSH_TIME_SHARE

    @property
    def rows_slice(self) -> "Slice":
        """Return the rows slice that must finish before this push slice starts.

        Dormant members have no rows. Their alerts wait for P2, whose rows slice also stores the dormant members.
        """
        tier = Tier.P2 if self.tier is Tier.DORMANT else self.tier
        return Slice(self.burst, Step.ROWS, tier, self.first, self.last)

    @property
    def pool_timing(self) -> PoolTiming:
        return POOL_TIMINGS[self.pool]

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


# Result of one attempt at a slice, as reported to the worker process.


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    people: int
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Not finished: the dispatcher queues the slice again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    cause: str


SliceResult = Done | Retry | Dead
