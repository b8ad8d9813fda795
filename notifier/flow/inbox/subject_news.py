"""Positions of one subject's newest bursts, and how far down the list is complete."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.flow.inbox.burst_walk import BEFORE_ALL

KEPT_PLACES = 128
"""Bursts listed per subject: enough to count a badge of 99+ without a read."""
SUBJECT_BYTES, PLACE_BYTES = 600, 200
"""Measured with tracemalloc."""

CLOCK_SKEW = timedelta(seconds=3)
"""How far the clocks of two machines may differ (see SETTLED_AFTER)."""
TICK = timedelta(milliseconds=1)
PlaceOf = tuple[datetime, BurstKey]
"""An `InboxPosition` as a plain tuple, which is cheaper to compare."""
FOR_EVER: PlaceOf = datetime(1970, 1, 1, tzinfo=UTC), BEFORE_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentChange:
    """A change of the last seconds."""

    burst: Burst
    at: datetime
    newest: bool
    """False: a later state may exist that this process never received, so the burst is read before it is shown."""


@dataclass(slots=True, eq=False, kw_only=True)
class SubjectNews:
    """List of one subject's newest bursts. While it is in the cache, every change to its bursts is applied to it."""

    subject: Subject
    complete_to: PlaceOf
    """Every burst at this position or above is listed."""
    places: list[PlaceOf]
    """Oldest first."""
    most: int = KEPT_PLACES
    followed: bool = True
    """False if changes may be missing: the read was too slow, or the list has left the cache since."""

    @property
    def size(self) -> int:
        return SUBJECT_BYTES + PLACE_BYTES * len(self.places)

    def newest(self, below: PlaceOf | None, down_to: PlaceOf) -> Iterator[PlaceOf]:
        """Yield the positions below `below` and down to `down_to`, newest first."""
        places = self.places
        at = len(places) if below is None else bisect_left(places, below)
        while at > 0 and places[at - 1] >= down_to:
            at -= 1
            yield places[at]

    def has(self, key: BurstKey) -> bool:
        """Return whether the burst is listed at any position."""
        return any(known == key for _, known in self.places)

    def lists(self, place: PlaceOf) -> bool:
        at = bisect_left(self.places, place)
        return at < len(self.places) and self.places[at] == place

    def correct(self, key: BurstKey, burst: Burst | None) -> bool:
        """Move a listed burst to its current position, or drop it. Return whether anything changed."""
        if burst is not None and self.lists((burst.opened_at, key)):
            return False
        self.places = [known for known in self.places if known[1] != key]
        if burst is not None:
            self.put(burst)
        return True

    def hear(self, heard: RecentChange) -> None:
        """List the burst, unless it may have moved since the change was published."""
        if heard.newest or not self.has(heard.burst.key):
            self.put(heard.burst)

    def put(self, burst: Burst) -> None:
        """List the burst at its current position; a re-stamped burst moves."""
        place = (burst.opened_at, burst.key)
        if self.lists(place):
            return
        self.places = [known for known in self.places if known[1] != burst.key]
        if place >= self.complete_to:
            insort(self.places, place)
        if len(self.places) > self.most:
            del self.places[0]
            self.complete_to = self.places[0]


# Last change of each subject, as this process learned of it. It proves pages that another process evaluated.

MOST_SUBJECTS = 50_000
"""About 18 MB. Other subjects are only known to have changed earlier."""
LEARNED_WITHIN = timedelta(seconds=1)
"""Maximum delay until a process learns of a change that Redis was not notified of, with a margin."""


@dataclass(slots=True)
class ChangeTimes:
    """One instance per event loop, and per life of the feeds that it follows."""

    since: datetime | None = None
    """Every change that was learned from this time on is known. None until changes are followed."""
    first_turn: int = 0
    """Like `since`, as a turn of the subject cache."""
    changed: "OrderedDict[Subject, tuple[int, datetime]]" = field(default_factory=OrderedDict)
    """Turn and time at which each subject's latest change was learned, oldest first."""

    def begin(self, turn: int, now: datetime) -> None:
        self.changed.clear()
        self.since, self.first_turn = now, turn

    def note(self, subject: Subject, turn: int, now: datetime) -> None:
        self.changed[subject] = turn, now
        self.changed.move_to_end(subject)
        if len(self.changed) > MOST_SUBJECTS:
            _, (self.first_turn, self.since) = self.changed.popitem(last=False)

    def proves(self, subjects: Collection[Subject], moment: datetime) -> bool:
        """Return whether another process knew the latest state of the subjects.

        That process had learned of everything by `moment` of its own clock.
        """
        latest = moment - CLOCK_SKEW - LEARNED_WITHIN
        if self.since is None or self.since >= latest:
            return False
        return all(self.changed[subject][1] < latest for subject in subjects if subject in self.changed)

    def unchanged(self, subjects: Collection[Subject], turn: int) -> bool:
        """Return whether none of the subjects has changed since that turn."""
        if not subjects:
            return True
        known = (self.changed[subject][0] <= turn for subject in subjects if subject in self.changed)
        return self.first_turn <= turn and all(known)
