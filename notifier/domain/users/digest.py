"""The digest: one item a person and local date for what isn't wanted singly; computed when read, never written."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice
from typing import Self

from notifier.domain.bursts.burst import Burst, expires_at
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.account_preferences import Overall
from notifier.domain.users.quiet_hours import wall_of
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import HiddenReason, Mark, Viewer, denied

GATHERED = 64
"""Bursts that a digest tells of, the newest of its day: as many as one read brings. It says whether there are more."""
INSIDE = 16
"""Of these a digest has so many with it, to be looked at one by one: a screen or two."""

_DAY = timedelta(days=1)
_YEARS = range(1970, 9999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a person's digests fall due: each date of the person's zone has one at most."""

    wall: tzinfo
    hour: int

    @classmethod
    def of(cls, overall: Overall) -> Self:
        return cls(wall=wall_of(overall.zone), hour=overall.digest_hour)

    def due(self, day: date) -> datetime | None:
        """When the clock on the wall shows the hour, for the first time where it does so twice; where it leaps over the
        hour, as much later as it leaps. None for a date that the zone has left out."""
        midnight = self._moment(day, 0)
        return self._moment(day, self.hour) if midnight.astimezone(self.wall).date() == day else None

    def day_of(self, moment: datetime) -> date:
        """Whose digest tells what opened then: the first that falls due later."""
        day = moment.astimezone(self.wall).date() - _DAY
        while (due := self.due(day)) is None or due <= moment:
            day += _DAY
        return day

    def before(self, day: date) -> date:
        """The date whose digest comes right before."""
        day -= _DAY
        while self.due(day) is None:
            day -= _DAY
        return day

    def last(self, now: datetime) -> date:
        """Of those that are due the latest."""
        return self.before(self.day_of(now))

    def due_of(self, moment: datetime) -> datetime:
        """When that one falls due: later than the moment, and the first after it."""
        return self.moment(self.day_of(moment))

    def moment(self, day: date) -> datetime:
        """Of a date that there is."""
        due = self.due(day)
        assert due is not None
        return due

    def _moment(self, day: date, hour: int) -> datetime:
        return datetime.combine(day, time(hour), self.wall).astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What its viewer's own bursts of a day come to. It stands where it fell due, and its marks are by its date."""

    key: BurstKey
    opened_at: datetime
    count: int
    """Mentions in the bursts that it tells of, as they have grown."""
    accounts: tuple[tuple[UserId, int], ...]
    """With the mentions of each, the most mentioned first."""
    newest: tuple[Burst, ...]
    more: bool
    """There were more bursts than it tells of."""

    @property
    def opened_in(self) -> datetime:
        return self.opened_at

    def stands(self, viewer: Viewer, now: datetime) -> bool:
        """Whether the viewer sees it, as far as marks and age go; what it tells of was asked when it was gathered."""
        return expires_at(self.opened_at) > now and viewer.marks.by_burst.get(self.key) is not Mark.HIDDEN


def gathered(burst: Burst, viewer: Viewer, now: datetime) -> bool:
    """Whether the viewer's digest tells of it: it is the volume alone that hides it, and that is `digest`."""
    return (
        viewer.wanted(burst.key.subject) is Volume.DIGEST
        and denied(burst, viewer, now=now) is HiddenReason.VOLUME
        and viewer.marks.by_burst.get(burst.key) is not Mark.HIDDEN
    )


def digest_of(viewer: Viewer, day: date, opened: Sequence[Burst], now: datetime) -> Digest | None:
    """`opened` are the day's bursts, newest first, as many as are told of and one more; None when the viewer would see
    none of them."""
    found = [burst for burst in opened[:GATHERED] if gathered(burst, viewer, now)]
    if not found:
        return None
    counts = Counter[UserId]()
    for burst in found:
        counts[burst.key.subject.owner] += burst.count
    return Digest(
        key=named(viewer.user, day),
        opened_at=Schedule.of(viewer.overall).moment(day),
        count=counts.total(),
        accounts=tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0]))),
        newest=tuple(islice(found, INSIDE)),
        more=len(opened) > GATHERED,
    )


def named(user: UserId, day: date) -> BurstKey:
    """Written `digest:ada#20260105`."""
    return BurstKey(Subject(Kind.DIGEST, user), day.year * 10_000 + day.month * 100 + day.day)


def date_in(key: BurstKey) -> date | None:
    """None where the number is no date."""
    year, rest = divmod(key.seq, 10_000)
    try:
        return date(year, *divmod(rest, 100)) if year in _YEARS else None
    except ValueError:
        return None
