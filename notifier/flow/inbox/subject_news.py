"""The newest bursts of one subject: where each stands, and down to where none is missing."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from notifier.domain.burst import Burst
from notifier.domain.subject import BurstKey, Subject

KEPT_PLACES = 64
"""Bursts listed per subject, as many as the pull index keeps."""
SUBJECT_BYTES, PLACE_BYTES = 600, 200
"""Measured with tracemalloc."""

TICK = timedelta(milliseconds=1)
FOR_EVER = datetime(1970, 1, 1, tzinfo=UTC)

PlaceOf = tuple[datetime, BurstKey]


@dataclass(slots=True, eq=False, kw_only=True)
class SubjectNews:
    """What is known of one subject. While it is in the cache, every change to its bursts is applied to it."""

    subject: Subject
    complete_since: datetime
    """Every burst that opened at or after it is listed."""
    places: list[PlaceOf]
    """Oldest first."""
    changed: int = 0
    """The cache's turn at the latest change."""
    followed: bool = True
    """False once it left the cache: from then on it misses changes."""

    @property
    def size(self) -> int:
        return SUBJECT_BYTES + PLACE_BYTES * len(self.places)

    def newest(self, below: PlaceOf | None, since: datetime) -> Iterator[PlaceOf]:
        """Iterate over the places that opened at or after `since` and stand below the given one, newest first."""
        places = self.places
        at = len(places) if below is None else bisect_left(places, below)
        while at > 0 and places[at - 1][0] >= since:
            at -= 1
            yield places[at]

    def lists(self, place: PlaceOf) -> bool:
        at = bisect_left(self.places, place)
        return at < len(self.places) and self.places[at] == place

    def place_of(self, burst: BurstKey) -> datetime | None:
        """Return the opening time by which the burst is listed, or None."""
        return next((opened_at for opened_at, key in self.places if key == burst), None)

    def correct(self, key: BurstKey, burst: Burst | None) -> bool:
        """Move a listed burst to where it really stands, or drop it; return whether anything changed."""
        if burst is not None and self.lists((burst.opened_at, key)):
            return False
        self.places = [known for known in self.places if known[1] != key]
        if burst is not None:
            self.put(burst)
        return True

    def put(self, burst: Burst) -> None:
        """List the burst where it belongs now; a re-stamped burst moves."""
        place = (burst.opened_at, burst.key)
        if self.lists(place):
            return
        self.places = [known for known in self.places if known[1] != burst.key]
        if burst.opened_at >= self.complete_since:
            insort(self.places, place)
        if len(self.places) > KEPT_PLACES:
            dropped, _ = self.places.pop(0)
            self.complete_since = dropped + TICK


def unchanged_since(turn: int, news: Iterable[SubjectNews]) -> bool:
    """Whether everything that was known at that turn still holds."""
    return all(one.followed and one.changed <= turn for one in news)
