"""Daily digests: one item per user and local date, computed when read, never written."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice
from typing import Self

from notifier.domain.bursts.burst import Burst, expires_at
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferences
from notifier.domain.users.quiet_hours import time_zone_of
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import HiddenReason, Mark, Viewer, hidden_reason

MAX_EXAMINED_BURSTS = 64
"""Maximum number of bursts of a day that a digest examines, the newest ones."""
MAX_LISTED_BURSTS = 16
"""Maximum number of bursts that a digest contains in full, about one or two screens."""

_DAY = timedelta(days=1)
_VALID_YEARS = range(1970, 9999)


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestSchedule:
    """When a user's digests are due: at most one per date in the user's time zone."""

    time_zone: tzinfo
    hour: int

    @classmethod
    def of(cls, preferences: AccountPreferences) -> Self:
        return cls(time_zone=time_zone_of(preferences.zone), hour=preferences.digest_hour)

    def due_time_or_none(self, day: date) -> datetime | None:
        """Return when the digest of this date is due; None for a date that the time zone skipped.

        If the local clock shows the hour twice, the digest is due at the first time. If the clock skips the hour, the
        digest is due later by as much as the clock is set forward.
        """
        midnight = self._utc_time(day, 0)
        return self._utc_time(day, self.hour) if midnight.astimezone(self.time_zone).date() == day else None

    def day_of(self, opened_at: datetime) -> date:
        """Return the date of the digest for bursts opened at this time: the first digest that is due later."""
        day = opened_at.astimezone(self.time_zone).date() - _DAY
        while (due := self.due_time_or_none(day)) is None or due <= opened_at:
            day += _DAY
        return day

    def previous_date(self, day: date) -> date:
        day -= _DAY
        while self.due_time_or_none(day) is None:
            day -= _DAY
        return day

    def latest_due_date(self, now: datetime) -> date:
        return self.previous_date(self.day_of(now))

    def next_due_time(self, after: datetime) -> datetime:
        return self.due_time(self.day_of(after))

    def due_time(self, day: date) -> datetime:
        """Return when the digest of this date is due. The date must exist in the time zone."""
        due = self.due_time_or_none(day)
        assert due is not None
        return due

    def _utc_time(self, day: date, hour: int) -> datetime:
        return datetime.combine(day, time(hour), self.time_zone).astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Summary of one day of bursts for one viewer. The inbox lists a digest at its due time."""

    key: BurstKey
    opened_at: datetime
    count: int
    """Current number of mentions in the counted bursts."""
    accounts: tuple[tuple[UserId, int], ...]
    """Mentioned accounts with the number of their mentions, the most mentioned first."""
    newest: tuple[Burst, ...]
    """The newest counted bursts, at most MAX_LISTED_BURSTS."""
    more: bool
    """There were more than MAX_EXAMINED_BURSTS bursts, so older ones may be missing from the counts."""

    @property
    def opened_second(self) -> datetime:
        """Return the time shown to users, as `Burst.opened_second` does. Due times are whole seconds."""
        return self.opened_at

    def is_visible(self, viewer: Viewer, now: datetime) -> bool:
        """Return whether the digest is neither expired nor hidden by a mark. `digest_of` has checked its bursts."""
        return expires_at(self.opened_at) > now and viewer.marks.by_burst.get(self.key) is not Mark.HIDDEN


def is_in_digest(burst: Burst, viewer: Viewer, now: datetime) -> bool:
    """Return whether the burst belongs to the viewer's digest: only the volume `digest` hides it."""
    return (
        viewer.effective_volume(burst.key.subject) is Volume.DIGEST
        and hidden_reason(burst, viewer, now=now) is HiddenReason.VOLUME
        and viewer.marks.by_burst.get(burst.key) is not Mark.HIDDEN
    )


def digest_of(viewer: Viewer, day: date, bursts_of_day: Sequence[Burst], now: datetime) -> Digest | None:
    """Return the viewer's digest of the day; None if it would be empty.

    `bursts_of_day` are ordered newest first, and are at most MAX_EXAMINED_BURSTS + 1.
    """
    counted = [burst for burst in bursts_of_day[:MAX_EXAMINED_BURSTS] if is_in_digest(burst, viewer, now)]
    if not counted:
        return None
    counts = Counter[UserId]()
    for burst in counted:
        counts[burst.key.subject.owner] += burst.count
    return Digest(
        key=digest_key(viewer.user, day),
        opened_at=DigestSchedule.of(viewer.account_preferences).due_time(day),
        count=counts.total(),
        accounts=tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        newest=tuple(islice(counted, MAX_LISTED_BURSTS)),
        more=len(bursts_of_day) > MAX_EXAMINED_BURSTS,
    )


def digest_key(user: UserId, day: date) -> BurstKey:
    """Return the key of a digest, for example `digest:ada#20260105`."""
    return BurstKey(Subject(Kind.DIGEST, user), day.year * 10_000 + day.month * 100 + day.day)


def date_of(key: BurstKey) -> date | None:
    """Return the date in the key of a digest; None if its number is no date."""
    year, month_and_day = divmod(key.seq, 10_000)
    try:
        return date(year, *divmod(month_and_day, 100)) if year in _VALID_YEARS else None
    except ValueError:
        return None
