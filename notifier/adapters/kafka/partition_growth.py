"""When a partition that a topic grew by may be read: once nothing that its keys left behind elsewhere is undone.

A key moves to a new partition when its topic grows. What is new, everybody knows from the group's commits alone:
partitions that were there when the group began have one from the start, so that one without is new, whoever has it and
however often it changes hands. It gets its commit when it may be read.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from notifier.adapters.kafka.client import ANSWERS_WITHIN, KNOWN_WITHIN

SETTLES = KNOWN_WITHIN.total_seconds() + ANSWERS_WITHIN + 1.0
"""Seconds after which nothing is sent to a key's former partition any more: those within which every sender knows of
the new ones, those for which it tries to deliver what it had sent before, and one more."""

Bounds = Mapping[int, tuple[int, int]]
"""First offset, and the one behind the last."""
Commits = Mapping[int, int | None]


def begun(commits: Commits) -> bool:
    """Whether the group has read anything at all."""
    return any(commit is not None for commit in commits.values())


@dataclass(slots=True)
class Hold:
    """Of one new partition."""

    elders: int
    """Partitions below this number were there before it."""
    seen: float
    ends: Mapping[int, int] | None = None
    """Of the elders, at a moment when nobody sent them anything any more that belongs here."""

    def settled(self, now: float) -> bool:
        return now >= self.seen + SETTLES

    def over(self, commits: Commits, bounds: Bounds) -> bool:
        """An elder whose records expired unread has nothing left to wait for."""
        if self.ends is None:
            return False
        return all((commits.get(number) or 0) >= end or bounds[number][0] >= end for number, end in self.ends.items())


@dataclass(slots=True)
class Growth:
    """What one reader knows of the new partitions, those of others included."""

    holds: dict[int, Hold] = field(default_factory=dict)

    def learn(self, commits: Commits, now: float) -> None:
        """Of a group that has begun."""
        new = {number for number, commit in commits.items() if commit is None}
        for number in self.holds.keys() - new:
            del self.holds[number]
        fresh = new - self.holds.keys()
        for number in fresh:
            self.holds[number] = Hold(elders=min(fresh), seen=now)

    def elders(self) -> Collection[int]:
        return range(max((hold.elders for hold in self.holds.values()), default=0))

    def released(self, commits: Commits, bounds: Bounds, now: float) -> Collection[int]:
        """Those that may be read now; the first time after they settled it only takes down what to wait for."""
        over = [number for number, hold in self.holds.items() if hold.over(commits, bounds)]
        for hold in self.holds.values():
            if hold.ends is None and hold.settled(now):
                hold.ends = {number: bounds[number][1] for number in range(hold.elders)}
        return over
