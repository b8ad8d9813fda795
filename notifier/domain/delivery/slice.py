"""The slice: a run of shards of one burst and tier, the unit in which work is queued, claimed and accounted."""

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
    """Rows first, then phones, provider by provider."""

    ROWS = "rows"
    APNS = "push.apns"
    FCM = "push.fcm"
    WEB = "push.web"

    @property
    def platform(self) -> Platform:
        """Of phones. Raises ValueError for rows."""
        return Platform(self.removeprefix("push."))

    @classmethod
    def of(cls, platform: Platform) -> "Step":
        return cls(f"push.{platform}")


PHONES = (Step.APNS, Step.FCM, Step.WEB)


class Pool(StrEnum):
    """The worker pools; each has a queue and processes of its own, so that a provider that stalls holds up neither rows
    nor the others' phones."""

    P0 = "p0"
    P1 = "p1"
    P2 = "p2"
    APNS = "push.apns"
    FCM = "push.fcm"
    WEB = "push.web"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTerms:
    """What a pool promises about a slice's time."""

    claim: timedelta
    """A worker's hold; renewed when a third of it has passed."""
    unclaimed: timedelta
    """A slice that was queued and not claimed for so long is queued again."""
    worth: timedelta
    """After so long a slice is left to the pull path."""


HAND_BACK_AFTER = timedelta(seconds=60)
"""A worker that can't finish a slice within this hands it back with what it has done."""
TURN = timedelta(seconds=1)
"""The same of phones, but for P0's: a VIP, who passes whatever waits, waits no longer for what is under way."""

_PHONES = PoolTerms(claim=timedelta(seconds=30), unclaimed=timedelta(seconds=10), worth=REACH)
"""A provider that doesn't answer is waited for, without a sign of life, for longer than a connection and an answer may
take. An alert that waited through somebody's night is still worth one, with all others of that night."""

TERMS = {
    # Celery on Redis loses tasks at a SIGKILL, so the claim decides how soon a lost slice goes on.
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
    """Written `mention:nova#12/rows/p1/0-63`; the same for every retry of the same work."""

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
        """Whether it goes before all others of its pool: phones of P0 wait for no crowd's. Rows have a pool a tier."""
        return self.step is not Step.ROWS and self.tier is Tier.P0

    @property
    def turn(self) -> timedelta:
        """How long a worker may stay at it before somebody else has a turn."""
        return HAND_BACK_AFTER if self.step is Step.ROWS or self.passes else TURN

    @property
    def rows(self) -> "Slice":
        """Those of the same people, which have to stand before their phones ring. Who is served by pull alone shares
        P2's: once they stand, it is sealed who that is."""
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


# What became of a worker's go at a slice; the host acts on it, and knows no more.


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    people: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """Not now: the dispatcher will queue it again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    cause: str


Outcome = Done | Again | Dead
