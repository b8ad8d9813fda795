"""Decide when consumers may read the partitions added to a topic.

When a topic grows, some keys move to new partitions. A new partition is held, which means not read, until the older
records of its keys are processed. A group commits all partitions when it starts. So a partition without a commit is
new, even after rebalances. It gets its first commit when it is released.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from notifier.adapters.kafka.connection import APPEND_TIMEOUT, METADATA_MAX_AGE

PRODUCER_SWITCH_SECONDS = METADATA_MAX_AGE.total_seconds() + APPEND_TIMEOUT.total_seconds() + 1.0
"""Seconds after which every producer sends a moved key only to its new partition.

In that time a producer detects the new partitions (METADATA_MAX_AGE), and its earlier appends end or fail
(APPEND_TIMEOUT). One second is a margin.
"""

Bounds = Mapping[int, tuple[int, int]]
"""First offset and end offset (last + 1) of each partition."""
Commits = Mapping[int, int | None]
"""Committed offset of each partition, None without a commit."""


def any_committed(commits: Commits) -> bool:
    """Return whether the group has ever committed any partition."""
    return any(commit is not None for commit in commits.values())


@dataclass(slots=True)
class WithheldPartition:
    """Hold on one new partition, which is not read until the hold ends."""

    older_count: int
    """Number of partitions that existed before this one was added. They have the lower numbers."""
    detected_at: float
    older_ends: Mapping[int, int] | None = None
    """End offsets of the older partitions, noted once no producer sends moved keys there; None before.

    All records before these offsets must be committed before this partition is read.
    """

    def producers_have_switched(self, now: float) -> bool:
        return now >= self.detected_at + PRODUCER_SWITCH_SECONDS

    def is_over(self, commits: Commits, bounds: Bounds) -> bool:
        """Return whether all older partitions are committed up to their ends.

        An older partition whose records expired unread also counts as done.
        """
        if self.older_ends is None:
            return False
        return all(
            (commits.get(number) or 0) >= end or bounds[number][0] >= end for number, end in self.older_ends.items()
        )


@dataclass(slots=True)
class PartitionGrowth:
    """Holds of all new partitions as known to one consumer, including those assigned to other members."""

    withheld: dict[int, WithheldPartition] = field(default_factory=dict)

    def update(self, commits: Commits, now: float) -> None:
        """Hold exactly the partitions without a commit. The group must have committed before (`any_committed`)."""
        new = {number for number, commit in commits.items() if commit is None}
        for number in self.withheld.keys() - new:
            del self.withheld[number]
        added = new - self.withheld.keys()
        for number in added:
            self.withheld[number] = WithheldPartition(older_count=min(added), detected_at=now)

    def older_partitions(self) -> Collection[int]:
        return range(max((hold.older_count for hold in self.withheld.values()), default=0))

    def newly_readable(self, commits: Commits, bounds: Bounds, now: float) -> Collection[int]:
        """Return the held partitions that may be read now; the caller deletes their withheld.

        A check after PRODUCER_SWITCH_SECONDS notes the end offsets of the older partitions, for later checks.
        """
        readable = [number for number, hold in self.withheld.items() if hold.is_over(commits, bounds)]
        for hold in self.withheld.values():
            if hold.older_ends is None and hold.producers_have_switched(now):
                hold.older_ends = {number: bounds[number][1] for number in range(hold.older_count)}
        return readable
