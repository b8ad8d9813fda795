"""Decides when consumers may read the partitions added to a topic.

When a topic grows, some keys move to new partitions. A new partition is withheld until the older records of its keys
are processed. A group commits all partitions when it starts. So a partition without a commit is new, even after
rebalances. The first commit of a new partition releases it for all members of the group.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from notifier.adapters.kafka.connection_options_and_errors import APPEND_TIMEOUT, METADATA_MAX_AGE

PRODUCER_SWITCH_SECONDS = METADATA_MAX_AGE.total_seconds() + APPEND_TIMEOUT.total_seconds() + 1.0
"""Seconds after a partition is detected until every producer sends a moved key only to its new partition.

In that time each producer detects the new partitions (METADATA_MAX_AGE), and its earlier appends end or fail
(APPEND_TIMEOUT). One second is a margin.
"""

OffsetBounds = Mapping[int, tuple[int, int]]
"""First offset and end offset (last + 1) of each partition."""
Commits = Mapping[int, int | None]
"""Committed offset of each partition, None without a commit."""


def any_committed(commits: Commits) -> bool:
    return any(commit is not None for commit in commits.values())


@dataclass(slots=True)
class WithheldPartition:
    """A new partition that is not read yet."""

    older_count: int
    """Number of partitions that existed before this one was added. They have the lower numbers."""
    detected_at: float
    older_ends: Mapping[int, int] | None = None
    """End offsets of the older partitions, noted once all producers have switched; None before.

    All records before these offsets must be committed before this partition is read.
    """

    def producers_have_switched(self, now: float) -> bool:
        return now >= self.detected_at + PRODUCER_SWITCH_SECONDS

    def is_readable(self, commits: Commits, bounds: OffsetBounds) -> bool:
        """Return whether all older partitions are committed up to `older_ends`. Expired records count as committed."""
        if self.older_ends is None:
            return False
        return all(
            (commits.get(number) or 0) >= end or bounds[number][0] >= end for number, end in self.older_ends.items()
        )


@dataclass(slots=True)
class PartitionGrowth:
    """Withheld partitions as known to one consumer, including those assigned to other members."""

    withheld: dict[int, WithheldPartition] = field(default_factory=dict)

    def withhold_new(self, commits: Commits, now: float) -> None:
        """Withhold exactly the partitions without a commit. The group must have committed before (`any_committed`)."""
        new = {number for number, commit in commits.items() if commit is None}
        for number in self.withheld.keys() - new:
            del self.withheld[number]
        added = new - self.withheld.keys()
        for number in added:
            self.withheld[number] = WithheldPartition(older_count=min(added), detected_at=now)

    def older_partitions(self) -> Collection[int]:
        """Return every partition that is older than some withheld partition."""
        return range(max((partition.older_count for partition in self.withheld.values()), default=0))

    def newly_readable(self, commits: Commits, bounds: OffsetBounds, now: float) -> Collection[int]:
        """Return the withheld partitions that may be read now.

        The first call after PRODUCER_SWITCH_SECONDS notes the end offsets of the older partitions, for later calls.
        """
        readable = [number for number, partition in self.withheld.items() if partition.is_readable(commits, bounds)]
        for partition in self.withheld.values():
            if partition.older_ends is None and partition.producers_have_switched(now):
                partition.older_ends = {number: bounds[number][1] for number in range(partition.older_count)}
        return readable
