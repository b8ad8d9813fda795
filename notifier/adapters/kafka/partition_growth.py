"""Decide when consumers may read the partitions added to a topic.

Keys move to new partitions when their topic grows. A new partition is therefore held until the older records of its
keys are processed. A group commits all partitions when it starts, so a partition without a commit is new, even after
rebalances. It gets its first commit when it is released.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from notifier.adapters.kafka.connection import APPEND_TIMEOUT, METADATA_MAX_AGE

SETTLE_TIME = METADATA_MAX_AGE.total_seconds() + APPEND_TIMEOUT.total_seconds() + 1.0
"""Seconds until no producer sends to a key's former partition any more.

Every producer detects the new partitions (METADATA_MAX_AGE), and its earlier appends end or fail (APPEND_TIMEOUT).
One second is a margin.
"""

Bounds = Mapping[int, tuple[int, int]]
"""First offset and end offset (last + 1) of each partition."""
Commits = Mapping[int, int | None]
"""Committed offset of each partition, None without a commit."""


def has_begun(commits: Commits) -> bool:
    """Return whether the group has ever committed."""
    return any(commit is not None for commit in commits.values())


@dataclass(slots=True)
class PartitionHold:
    """Hold that keeps one new partition from being read."""

    older: int
    """Partitions below this number existed before it."""
    seen: float
    ends: Mapping[int, int] | None = None
    """End offsets of the older partitions, noted when producers had settled.

    All records before these offsets must be committed before the release.
    """

    def has_settled(self, now: float) -> bool:
        return now >= self.seen + SETTLE_TIME

    def is_over(self, commits: Commits, bounds: Bounds) -> bool:
        """Return whether all older partitions are committed up to their ends.

        An older partition whose records expired unread also counts as done.
        """
        if self.ends is None:
            return False
        return all((commits.get(number) or 0) >= end or bounds[number][0] >= end for number, end in self.ends.items())


@dataclass(slots=True)
class PartitionGrowth:
    """Holds of all new partitions as known to one consumer, including those assigned to other members."""

    holds: dict[int, PartitionHold] = field(default_factory=dict)

    def update(self, commits: Commits, now: float) -> None:
        """Update the holds from the commits of a group that has begun: a partition without a commit is held."""
        new = {number for number, commit in commits.items() if commit is None}
        for number in self.holds.keys() - new:
            del self.holds[number]
        added = new - self.holds.keys()
        for number in added:
            self.holds[number] = PartitionHold(older=min(added), seen=now)

    def older_partitions(self) -> Collection[int]:
        return range(max((hold.older for hold in self.holds.values()), default=0))

    def release(self, commits: Commits, bounds: Bounds, now: float) -> Collection[int]:
        """Return the partitions that may be read now. The first call after producers settled only notes the ends."""
        released = [number for number, hold in self.holds.items() if hold.is_over(commits, bounds)]
        for hold in self.holds.values():
            if hold.ends is None and hold.has_settled(now):
                hold.ends = {number: bounds[number][1] for number in range(hold.older)}
        return released
