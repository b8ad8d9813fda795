"""The slice: a run of shards of one burst and tier, the unit in which work is queued, claimed and accounted."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import total_ordering
from typing import Self

from notifier.domain.audience import Tier
from notifier.domain.errors import BadSubject
from notifier.domain.subject import BurstKey


class Step(StrEnum):
    """Rows first, then phones."""

    ROWS = "rows"
    PUSH = "push"


class Pool(StrEnum):
    """The worker pools; each has a queue and processes of its own."""

    P0 = "p0"
    P1 = "p1"
    P2 = "p2"
    PUSH = "push"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a pool promises about a slice's time."""

    claim: timedelta
    """A worker's hold; renewed when a third of it has passed."""
    unclaimed: timedelta
    """A slice that was queued and not claimed for so long is queued again."""
    worth: timedelta
    """After so long a slice is left to the pull path."""


HAND_BACK_AFTER = timedelta(seconds=60)
"""A worker that can't finish a slice within this hands it back with what it has done."""

TERMS = {
    # Celery on Redis loses tasks at a SIGKILL, so the claim decides how soon a lost slice goes on.
    Pool.P0: Terms(claim=timedelta(seconds=1.5), unclaimed=timedelta(seconds=3), worth=timedelta(hours=1)),
    Pool.P1: Terms(claim=timedelta(seconds=3), unclaimed=timedelta(seconds=5), worth=timedelta(hours=2)),
    Pool.P2: Terms(claim=timedelta(seconds=30), unclaimed=timedelta(seconds=60), worth=timedelta(hours=6)),
    Pool.PUSH: Terms(claim=timedelta(seconds=10), unclaimed=timedelta(seconds=10), worth=timedelta(minutes=15)),
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
        return Pool.PUSH if self.step is Step.PUSH else Pool(self.tier)

    @property
    def terms(self) -> Terms:
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
