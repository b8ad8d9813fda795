"""Account-wide preferences, and how they combine with those of single subjects."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, changed, nobody
from notifier.domain.audience.tiers import SetKind
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import MentionsAllowed
from notifier.domain.ids import Kind, Member, Subject
from notifier.domain.timing import REACH
from notifier.domain.users.quiet_hours import NO_HOURS, UTC_ZONE, Hours, looked_for, quiet_until
from notifier.domain.users.subject_preferences import ALWAYS, Volume, Want, begins_anew, combined

DIGEST_HOUR = 18

_TICK = timedelta(milliseconds=1)
"""Finest time resolution that every store keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallWord:
    """One change to a member's account preferences. Fields left as None are unchanged.

    For each field the last write wins, regardless of arrival order.
    """

    member: Member
    at: datetime
    volume: Volume | None = None
    visible_from: datetime | None = None
    default_from: datetime | None = None
    push: bool | None = None
    quiet: Hours | None = None
    zone: str | None = None
    digest_hour: int | None = None
    mentions: MentionsAllowed | None = None


THINGS = tuple(field.name for field in fields(OverallWord) if field.name not in ("member", "at"))
"""Fields that a change may set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """A member's current account preferences, after all changes."""

    at: datetime = ALWAYS
    """Time of the latest change."""
    volume: Volume = Volume.ALL
    visible_from: datetime = ALWAYS
    """When `off` ended. Bursts opened earlier are hidden, except mentions of the member."""
    default_from: datetime = ALWAYS
    """When `digest` began or ended. Bursts opened earlier are hidden for subjects without their own volume."""
    push: bool | None = None
    """None if the member has not chosen: alerts are allowed, but were not asked for."""
    quiet: Hours = NO_HOURS
    zone: str = UTC_ZONE
    """IANA time zone of the quiet hours and the digest hour."""
    digest_hour: int = DIGEST_HOUR
    mentions: MentionsAllowed = MentionsAllowed.ALL
    """Authors whose mentions of the member reach its followers. The router checks it; it is in no bitmap."""

    def after(self, word: OverallWord) -> "Overall":
        values = {name: value for name in THINGS if (value := getattr(word, name)) is not None}
        return replace(self, at=word.at, **values)

    @property
    def sets(self) -> Collection[SetKind]:
        """Return the account-wide sets that contain the member. Quiet hours are in no set: they change daily."""
        volume = [] if self.volume is Volume.ALL else [SetKind(f"overall_{self.volume}")]
        match self.push:
            case None:
                return volume
            case True:
                return [*volume, SetKind.ASKED]
            case False:
                return [*volume, SetKind.NO_PUSH]

    @property
    def alerts(self) -> bool:
        """Return whether the user gets alerts at all, outside quiet hours."""
        return self.push is not False

    def asleep_until(self, now: datetime) -> datetime | None:
        """Return when the user's current quiet hours end; None outside quiet hours."""
        return quiet_until(self.zone, self.quiet, now)

    def looked_for_at(self, burst: Burst, now: datetime) -> datetime | None:
        """Return when to send an alert that quiet hours hold back now; None outside quiet hours.

        This is the next quarter hour after they end. If new quiet hours have begun by then, or the alert has expired,
        it is the end of the quiet hours itself.
        """
        wakes = self.asleep_until(now)
        if wakes is None:
            return None
        at = looked_for(wakes)
        return wakes if at >= burst.opened_at + REACH or self.asleep_until(at) else at


NOTHING_SAID = Overall()
"""Account preferences of a member who has changed none."""

OF_OVERALLS = (
    *(SetKind.OVERALL_OFF, SetKind.OVERALL_FIRST, SetKind.OVERALL_DIGEST),
    *(SetKind.NO_PUSH, SetKind.ASKED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallWish:
    """A user's request to change account preferences. Fields left as None are unchanged."""

    volume: Volume | None = None
    push: bool | None = None
    quiet: Hours | None = None
    zone: str | None = None
    digest_hour: int | None = None
    mentions: MentionsAllowed | None = None

    def heard(self, member: Member, before: Overall, now: datetime) -> OverallWord:
        """Return the change that this request makes to the current preferences.

        The change is newer than the current preferences, even if those were written by a clock that is ahead.
        """
        left_off = before.volume is Volume.OFF and self.volume not in {None, Volume.OFF}
        digests = Volume.DIGEST in {before.volume, self.volume}
        hides_past = digests and self.volume is not None and begins_anew(before.volume, self.volume)
        return OverallWord(
            member=member,
            at=max(now, before.at + _TICK),
            volume=self.volume,
            visible_from=now if left_off else None,
            default_from=now if hides_past else None,
            push=self.push,
            quiet=self.quiet,
            zone=self.zone,
            digest_hour=self.digest_hour,
            mentions=self.mentions,
        )


def visible_from(
    follows: Mapping[Subject, datetime], wants: Mapping[Subject, Want], overall: Overall
) -> Mapping[Subject, datetime]:
    """Return `visible_from` of all followed subjects: the latest of follow, subject and account preferences."""
    default = _wanted_from(overall, None)
    return {
        subject: max(since, _wanted_from(overall, wants[subject]) if subject in wants else default)
        for subject, since in follows.items()
    }


def _wanted_from(overall: Overall, own: Want | None) -> datetime:
    if own is None or own.volume is Volume.DEFAULT:
        since = max(overall.visible_from, overall.default_from)
        return since if own is None else max(since, own.visible_from)
    return max(overall.visible_from, own.visible_from)


@dataclass(frozen=True, slots=True)
class Unwanted:
    """The alert is suppressed, regardless of quiet hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asleep:
    """The alert waits for the end of quiet hours."""

    until: datetime
    """When to try again."""


def spares(overall: Overall, own: Volume, burst: Burst, now: datetime) -> Unwanted | Asleep | None:
    """Return how account preferences hold back the alert, or None. `own` is the subject's own volume."""
    if not overall.alerts or not _admits(overall, own, burst):
        return Unwanted()
    until = overall.looked_for_at(burst, now)
    return None if until is None else Asleep(until=until)


def _admits(overall: Overall, own: Volume, burst: Burst) -> bool:
    if burst.key.subject.kind is Kind.SELF:
        return True
    since = max(overall.visible_from, overall.default_from) if own is Volume.DEFAULT else overall.visible_from
    return since <= burst.opened_at and combined(overall.volume, own).admits(burst)


def overall_sets(standing: Mapping[Member, Overall]) -> Mapping[SetKind, Bits]:
    """Return the account-wide sets of one shard from the current preferences of its members."""
    return {
        kind: changed(nobody(), {member % SHARD_MEMBERS: kind in prefs.sets for member, prefs in standing.items()})
        for kind in OF_OVERALLS
    }
