"""Decides when the partitions that a topic grew by may be read.

A key moves to a new partition when its topic grows, so a new partition waits until its keys' older records are done.
A group commits every partition when it begins. A partition without a commit is therefore new, whichever member has it
and however often it changes hands; it gets its commit when it may be read.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from notifier.adapters.kafka.connection import APPEND_TIMEOUT, METADATA_MAX_AGE

SETTLE_TIME = METADATA_MAX_AGE.total_seconds() + APPEND_TIMEOUT.total_seconds() + 1.0
"""Seconds until nothing is sent to a key's former partition any more: every producer learns of the new partitions,
then gives up what it had sent before, and one second to spare."""

Bounds = Mapping[int, tuple[int, int]]
"""By partition: the first offset, and the one behind the last."""
Commits = Mapping[int, int | None]
"""By partition; None without a commit."""


def has_begun(commits: Commits) -> bool:
    """Whether the group has ever committed."""
    return any(commit is not None for commit in commits.values())


@dataclass(slots=True)
class PartitionHold:
    """Keeps one new partition from being read."""

    older: int
    """Partitions below this number existed before it."""
    seen: float
    ends: Mapping[int, int] | None = None
    """The ends of the older partitions once producers had settled: everything before them must be committed first."""

    def has_settled(self, now: float) -> bool:
        return now >= self.seen + SETTLE_TIME

    def is_over(self, commits: Commits, bounds: Bounds) -> bool:
        """An older partition whose records expired unread has nothing left to wait for."""
        if self.ends is None:
            return False
        return all((commits.get(number) or 0) >= end or bounds[number][0] >= end for number, end in self.ends.items())


@dataclass(slots=True)
class PartitionGrowth:
    """What one consumer knows of the new partitions, including those of other members."""

    holds: dict[int, PartitionHold] = field(default_factory=dict)

    def update(self, commits: Commits, now: float) -> None:
        """Take over the commits of a group that has begun."""
        new = {number for number, commit in commits.items() if commit is None}
        for number in self.holds.keys() - new:
            del self.holds[number]
        added = new - self.holds.keys()
        for number in added:
            self.holds[number] = PartitionHold(older=min(added), seen=now)

    def older_partitions(self) -> Collection[int]:
        return range(max((hold.older for hold in self.holds.values()), default=0))

    def release(self, commits: Commits, bounds: Bounds, now: float) -> Collection[int]:
        """Return the partitions that may be read now. The first call after they settled only notes the ends."""
        released = [number for number, hold in self.holds.items() if hold.is_over(commits, bounds)]
        for hold in self.holds.values():
            if hold.ends is None and hold.has_settled(now):
                hold.ends = {number: bounds[number][1] for number in range(hold.older)}
        return released
