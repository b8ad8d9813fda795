"""Positions of a subject's newest bursts, and times of subjects' last changes."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.domain.users.visibility import MAX_CLOCK_SKEW
from notifier.flow.inbox.burst_walk import LOWEST_KEY

MAX_POSITIONS = 128
"""Bursts listed per subject: enough to count a badge of 99+ without a read."""
SUBJECT_BYTES, POSITION_BYTES = 600, 200
"""Bytes of a list, and of each position in it. Measured with tracemalloc."""

ONE_MILLISECOND = timedelta(milliseconds=1)
PositionTuple = tuple[datetime, BurstKey]
"""An `InboxPosition` as a plain tuple, which is cheaper to compare."""
OLDEST_POSITION: PositionTuple = datetime(1970, 1, 1, tzinfo=UTC), LOWEST_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentChange:
    """State of a burst that changed in the last seconds."""

    burst: Burst
    received_at: datetime
    is_newest: bool
    """False if the store may have a later state that this process will never receive. The burst is then read again."""


@dataclass(slots=True, eq=False, kw_only=True)
class SubjectPositions:
    """List of one subject's newest bursts. While the list is cached, changes of the bursts are applied to it."""

    subject: Subject
    complete_to: PositionTuple
    """Every burst at this position or newer is listed."""
    positions: list[PositionTuple]
    """Oldest first."""
    max_positions: int = MAX_POSITIONS
    is_followed: bool = True
    """False if changes may be missing, for example because the list has left the cache."""

    @property
    def size(self) -> int:
        """Return the memory of the list in bytes."""
        return SUBJECT_BYTES + POSITION_BYTES * len(self.positions)

    def newest(self, after: PositionTuple | None, last: PositionTuple) -> Iterator[PositionTuple]:
        """Yield the positions older than `after` and down to `last`, newest first."""
        positions = self.positions
        index = len(positions) if after is None else bisect_left(positions, after)
        while index > 0 and positions[index - 1] >= last:
            index -= 1
            yield positions[index]

    def has(self, key: BurstKey) -> bool:
        """Return whether the burst is listed, at any position."""
        return any(listed_key == key for _, listed_key in self.positions)

    def is_listed(self, position: PositionTuple) -> bool:
        index = bisect_left(self.positions, position)
        return index < len(self.positions) and self.positions[index] == position

    def correct(self, key: BurstKey, burst: Burst | None) -> bool:
        """Move a burst to its current position, or drop it if `burst` is None.

        Return False if the burst was at that position already.
        """
        if burst is not None and self.is_listed((burst.opened_at, key)):
            return False
        self.positions = [position for position in self.positions if position[1] != key]
        if burst is not None:
            self.put(burst)
        return True

    def apply(self, change: RecentChange) -> None:
        """List the burst. If the change may be outdated, a listed burst keeps its position."""
        if change.is_newest or not self.has(change.burst.key):
            self.put(change.burst)

    def put(self, burst: Burst) -> None:
        """List the burst at its current position only. A burst older than `complete_to` is left out."""
        position = (burst.opened_at, burst.key)
        if self.is_listed(position):
            return
        self.positions = [listed_position for listed_position in self.positions if listed_position[1] != burst.key]
        if position >= self.complete_to:
            insort(self.positions, position)
        if len(self.positions) > self.max_positions:
            del self.positions[0]
            self.complete_to = self.positions[0]


# Time of each subject's last change. It shows whether a cached or remembered page is current.

MAX_SUBJECTS = 50_000
"""Maximum subjects in `last_changes`, about 18 MB."""
MAX_FEED_DELAY = timedelta(seconds=1)
"""Maximum delay of a change that a process learns from the change feed only: half a second between reads of the feed,
and a margin."""


@dataclass(slots=True)
class ChangeTimes:
    """When each subject's latest change arrived in this process. One instance per event loop."""

    since: datetime | None = None
    """Subjects that are not in `last_changes` have not changed after this time. None until changes are followed."""
    first_revision: int = 0
    """Value of `SubjectCache.revision` at `since`."""
    last_changes: "OrderedDict[Subject, tuple[int, datetime]]" = field(default_factory=OrderedDict)
    """Revision and time at which the latest change arrived, by subject, oldest first."""

    def begin(self, revision: int, now: datetime) -> None:
        self.last_changes.clear()
        self.since, self.first_revision = now, revision

    def record_change(self, subject: Subject, revision: int, now: datetime) -> None:
        self.last_changes[subject] = revision, now
        self.last_changes.move_to_end(subject)
        if len(self.last_changes) > MAX_SUBJECTS:
            _, (self.first_revision, self.since) = self.last_changes.popitem(last=False)

    def are_unchanged_since(self, subjects: Collection[Subject], current_at: datetime) -> bool:
        """Return whether the subjects are certainly unchanged since another process made a page of them.

        `current_at` is the time, by the other process's clock, up to which that process knew all changes.
        """
        cutoff = current_at - MAX_CLOCK_SKEW - MAX_FEED_DELAY
        if self.since is None or self.since >= cutoff:
            return False
        return all(self.last_changes[subject][1] < cutoff for subject in subjects if subject in self.last_changes)

    def are_unchanged_since_revision(self, subjects: Collection[Subject], revision: int) -> bool:
        """Return whether the subjects are certainly unchanged since the subject cache had that revision."""
        if not subjects:
            return True
        are_older = (self.last_changes[subject][0] <= revision for subject in subjects if subject in self.last_changes)
        return self.first_revision <= revision and all(are_older)
