"""Positions of one subject's newest bursts, and how far down the list is complete."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.flow.inbox.burst_walk import LOWEST_KEY

MAX_POSITIONS = 128
"""Bursts listed per subject: enough to count a badge of 99+ without a read."""
SUBJECT_BYTES, POSITION_BYTES = 600, 200
"""Measured with tracemalloc."""

CLOCK_SKEW = timedelta(seconds=3)
"""How far the clocks of two machines may differ (see SETTLE_DELAY)."""
TICK = timedelta(milliseconds=1)
PositionTuple = tuple[datetime, BurstKey]
"""An `InboxPosition` as a plain tuple, which is cheaper to compare."""
OLDEST_POSITION: PositionTuple = datetime(1970, 1, 1, tzinfo=UTC), LOWEST_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentChange:
    """A change of the last seconds."""

    burst: Burst
    at: datetime
    is_newest: bool
    """False: a later state may exist that this process never received, so the burst is read before it is shown."""


@dataclass(slots=True, eq=False, kw_only=True)
class SubjectPositions:
    """List of one subject's newest bursts. While it is in the cache, every change to its bursts is applied to it."""

    subject: Subject
    complete_to: PositionTuple
    """Every burst at this position or above is listed."""
    positions: list[PositionTuple]
    """Oldest first."""
    max_positions: int = MAX_POSITIONS
    is_followed: bool = True
    """False if changes may be missing: the read was too slow, or the list has left the cache since."""

    @property
    def size(self) -> int:
        return SUBJECT_BYTES + POSITION_BYTES * len(self.positions)

    def newest(self, below: PositionTuple | None, down_to: PositionTuple) -> Iterator[PositionTuple]:
        """Yield the positions below `below` and down to `down_to`, newest first."""
        places = self.positions
        at = len(places) if below is None else bisect_left(places, below)
        while at > 0 and places[at - 1] >= down_to:
            at -= 1
            yield places[at]

    def has(self, key: BurstKey) -> bool:
        """Return whether the burst is listed at any position."""
        return any(known == key for _, known in self.positions)

    def is_listed(self, place: PositionTuple) -> bool:
        at = bisect_left(self.positions, place)
        return at < len(self.positions) and self.positions[at] == place

    def correct(self, key: BurstKey, burst: Burst | None) -> bool:
        """Move a listed burst to its current position, or drop it. Return whether anything changed."""
        if burst is not None and self.is_listed((burst.opened_at, key)):
            return False
        self.positions = [known for known in self.positions if known[1] != key]
        if burst is not None:
            self.put(burst)
        return True

    def apply(self, change: RecentChange) -> None:
        """List the burst, unless it may have moved since the change was published."""
        if change.is_newest or not self.has(change.burst.key):
            self.put(change.burst)

    def put(self, burst: Burst) -> None:
        """List the burst at its current position; a re-stamped burst moves."""
        place = (burst.opened_at, burst.key)
        if self.is_listed(place):
            return
        self.positions = [known for known in self.positions if known[1] != burst.key]
        if place >= self.complete_to:
            insort(self.positions, place)
        if len(self.positions) > self.max_positions:
            del self.positions[0]
            self.complete_to = self.positions[0]


# Last change of each subject, as this process learned of it. It proves pages that another process evaluated.

MAX_SUBJECTS = 50_000
"""About 18 MB. Other subjects are only known to have changed earlier."""
MAX_STREAM_DELAY = timedelta(seconds=1)
"""Maximum delay until a process learns of a change that Redis was not notified of, with a margin."""


@dataclass(slots=True)
class ChangeTimes:
    """One instance per event loop, and per life of the feeds that it follows."""

    since: datetime | None = None
    """Every change that was learned from this time on is known. None until changes are followed."""
    first_revision: int = 0
    """Like `since`, as a turn of the subject cache."""
    changed: "OrderedDict[Subject, tuple[int, datetime]]" = field(default_factory=OrderedDict)
    """Turn and time at which each subject's latest change was learned, oldest first."""

    def begin(self, revision: int, now: datetime) -> None:
        self.changed.clear()
        self.since, self.first_revision = now, revision

    def note(self, subject: Subject, revision: int, now: datetime) -> None:
        self.changed[subject] = revision, now
        self.changed.move_to_end(subject)
        if len(self.changed) > MAX_SUBJECTS:
            _, (self.first_revision, self.since) = self.changed.popitem(last=False)

    def proves(self, subjects: Collection[Subject], moment: datetime) -> bool:
        """Return whether another process knew the latest state of the subjects.

        That process had learned of everything by `moment` of its own clock.
        """
        latest = moment - CLOCK_SKEW - MAX_STREAM_DELAY
        if self.since is None or self.since >= latest:
            return False
        return all(self.changed[subject][1] < latest for subject in subjects if subject in self.changed)

    def unchanged(self, subjects: Collection[Subject], revision: int) -> bool:
        """Return whether none of the subjects has changed since that turn."""
        if not subjects:
            return True
        known = (self.changed[subject][0] <= revision for subject in subjects if subject in self.changed)
        return self.first_revision <= revision and all(known)
