"""The newest bursts of one subject: where each stands, and down to where none is missing."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.flow.inbox.burst_walk import BEFORE_ALL

KEPT_PLACES = 128
"""Bursts listed per subject: a badge of 99+ is counted without a read."""
SUBJECT_BYTES, PLACE_BYTES = 600, 200
"""Measured with tracemalloc."""

CLOCK_SKEW = timedelta(seconds=3)
"""How far the clocks of two machines may differ (see SETTLED_AFTER)."""
TICK = timedelta(milliseconds=1)
PlaceOf = tuple[datetime, BurstKey]
"""As a Place, and cheaper to compare."""
FOR_EVER: PlaceOf = datetime(1970, 1, 1, tzinfo=UTC), BEFORE_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentChange:
    """A change of the last seconds."""

    burst: Burst
    at: datetime
    newest: bool
    """False: a later state may exist that this process never heard of, so the burst is read before it is shown."""


@dataclass(slots=True, eq=False, kw_only=True)
class SubjectNews:
    """What is known of one subject. While it is in the cache, every change to its bursts is applied to it."""

    subject: Subject
    complete_to: PlaceOf
    """Every burst that stands there or above is listed."""
    places: list[PlaceOf]
    """Oldest first."""
    most: int = KEPT_PLACES
    followed: bool = True
    """False where changes may be missing: it was read too slowly, or has left the cache since."""

    @property
    def size(self) -> int:
        return SUBJECT_BYTES + PLACE_BYTES * len(self.places)

    def newest(self, below: PlaceOf | None, down_to: PlaceOf) -> Iterator[PlaceOf]:
        """Iterate over the places below the first and down to the second, newest first."""
        places = self.places
        at = len(places) if below is None else bisect_left(places, below)
        while at > 0 and places[at - 1] >= down_to:
            at -= 1
            yield places[at]

    def has(self, key: BurstKey) -> bool:
        """Return whether the burst is listed, at whatever place."""
        return any(known == key for _, known in self.places)

    def lists(self, place: PlaceOf) -> bool:
        at = bisect_left(self.places, place)
        return at < len(self.places) and self.places[at] == place

    def correct(self, key: BurstKey, burst: Burst | None) -> bool:
        """Move a listed burst to where it really stands, or drop it; return whether anything changed."""
        if burst is not None and self.lists((burst.opened_at, key)):
            return False
        self.places = [known for known in self.places if known[1] != key]
        if burst is not None:
            self.put(burst)
        return True

    def hear(self, heard: RecentChange) -> None:
        """List the burst, unless it may have moved since it was told of."""
        if heard.newest or not self.has(heard.burst.key):
            self.put(heard.burst)

    def put(self, burst: Burst) -> None:
        """List the burst where it belongs now; a re-stamped burst moves."""
        place = (burst.opened_at, burst.key)
        if self.lists(place):
            return
        self.places = [known for known in self.places if known[1] != burst.key]
        if place >= self.complete_to:
            insort(self.places, place)
        if len(self.places) > self.most:
            del self.places[0]
            self.complete_to = self.places[0]


# When each subject changed last, as this process learned: by it a page is proved that another process evaluated.

MOST_SUBJECTS = 50_000
"""About 18 MB. Of the others it is known only that they changed longer ago."""
LEARNED_WITHIN = timedelta(seconds=1)
"""How late a process learns of a change that Redis was not told of, with room to spare."""


@dataclass(slots=True)
class ChangeTimes:
    """For one event loop, and for one life of the feeds that it follows."""

    since: datetime | None = None
    """Every change that was learned from then on is known. None while nobody follows."""
    first_turn: int = 0
    """As `since`, by the turns of the subject cache."""
    changed: "OrderedDict[Subject, tuple[int, datetime]]" = field(default_factory=OrderedDict)
    """The turn and the time at which the latest change was learned; the oldest first."""

    def begin(self, turn: int, now: datetime) -> None:
        self.changed.clear()
        self.since, self.first_turn = now, turn

    def note(self, subject: Subject, turn: int, now: datetime) -> None:
        self.changed[subject] = turn, now
        self.changed.move_to_end(subject)
        if len(self.changed) > MOST_SUBJECTS:
            _, (self.first_turn, self.since) = self.changed.popitem(last=False)

    def proves(self, subjects: Collection[Subject], moment: datetime) -> bool:
        """Whether another process, which had learned of everything by that moment of its clock, knew the latest state
        of the subjects."""
        latest = moment - CLOCK_SKEW - LEARNED_WITHIN
        if self.since is None or self.since >= latest:
            return False
        return all(self.changed[subject][1] < latest for subject in subjects if subject in self.changed)

    def unchanged(self, subjects: Collection[Subject], turn: int) -> bool:
        """Whether nothing of the subjects has changed since that turn."""
        if not subjects:
            return True
        known = (self.changed[subject][0] <= turn for subject in subjects if subject in self.changed)
        return self.first_turn <= turn and all(known)
