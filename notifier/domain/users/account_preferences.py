"""The overall: what a person says of everything at once, and how it goes together with what is said of one subject."""

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
"""What every store tells apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallWord:
    """What a member said, and no more: of each thing the latest counts, in whatever order the words come."""

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
"""What a word may be about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """What stands of a member, by all words."""

    at: datetime = ALWAYS
    """Of the latest."""
    volume: Volume = Volume.ALL
    visible_from: datetime = ALWAYS
    """When `off` was left: nothing that opened earlier is seen, but what is about oneself."""
    default_from: datetime = ALWAYS
    """The same of `digest`, which silences only what has no word of its own; and when it was begun."""
    push: bool | None = None
    """None is no word of it: alerts are wanted then, but weren't asked for."""
    quiet: Hours = NO_HOURS
    zone: str = UTC_ZONE
    """Of the IANA, as the quiet hours and the digest's hour are meant."""
    digest_hour: int = DIGEST_HOUR
    mentions: MentionsAllowed = MentionsAllowed.ALL
    """Whose mentions of the member its followers are told of: the router asks, and no bitmap knows."""

    def after(self, word: OverallWord) -> "Overall":
        said = {thing: value for thing in THINGS if (value := getattr(word, thing)) is not None}
        return replace(self, at=word.at, **said)

    @property
    def sets(self) -> Collection[SetKind]:
        """Those of everybody that the member is in for it. Who has quiet hours is in none: they begin and end daily."""
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
        """Whether the person's phone may ring at all, at one hour or another."""
        return self.push is not False

    def asleep_until(self, now: datetime) -> datetime | None:
        """When the quiet hours end that the person has now."""
        return quiet_until(self.zone, self.quiet, now)

    def looked_for_at(self, burst: Burst, now: datetime) -> datetime | None:
        """When an alert that sleep holds back now has its turn: at the waking itself where by the next quarter of an
        hour the person sleeps again, or the alert is worth nothing any more."""
        wakes = self.asleep_until(now)
        if wakes is None:
            return None
        at = looked_for(wakes)
        return wakes if at >= burst.opened_at + REACH or self.asleep_until(at) else at


NOTHING_SAID = Overall()

OF_OVERALLS = (
    *(SetKind.OVERALL_OFF, SetKind.OVERALL_FIRST, SetKind.OVERALL_DIGEST),
    *(SetKind.NO_PUSH, SetKind.ASKED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallWish:
    """What a person asks to be changed; what isn't named stays."""

    volume: Volume | None = None
    push: bool | None = None
    quiet: Hours | None = None
    zone: str | None = None
    digest_hour: int | None = None
    mentions: MentionsAllowed | None = None

    def heard(self, member: Member, before: Overall, now: datetime) -> OverallWord:
        """Said after what stands, also where that is by a clock that is ahead of this one."""
        left_off = before.volume is Volume.OFF and self.volume not in {None, Volume.OFF}
        digests = Volume.DIGEST in {before.volume, self.volume}
        anew = digests and self.volume is not None and begins_anew(before.volume, self.volume)
        return OverallWord(
            member=member,
            at=max(now, before.at + _TICK),
            volume=self.volume,
            visible_from=now if left_off else None,
            default_from=now if anew else None,
            push=self.push,
            quiet=self.quiet,
            zone=self.zone,
            digest_hour=self.digest_hour,
            mentions=self.mentions,
        )


def visible_from(
    follows: Mapping[Subject, datetime], wants: Mapping[Subject, Want], overall: Overall
) -> Mapping[Subject, datetime]:
    """Of all that a person follows: the latest of all words, since when it is followed and since when it is wanted."""
    of_others = _wanted_from(overall, None)
    return {
        subject: max(since, _wanted_from(overall, wants[subject]) if subject in wants else of_others)
        for subject, since in follows.items()
    }


def _wanted_from(overall: Overall, own: Want | None) -> datetime:
    if own is None or own.volume is Volume.DEFAULT:
        since = max(overall.visible_from, overall.default_from)
        return since if own is None else max(since, own.visible_from)
    return max(overall.visible_from, own.visible_from)


@dataclass(frozen=True, slots=True)
class Unwanted:
    """The phone stays silent, whatever the hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asleep:
    """It would ring, but for the hour."""

    until: datetime
    """When the person is looked for."""


def spares(overall: Overall, own: Volume, burst: Burst, now: datetime) -> Unwanted | Asleep | None:
    """How what is said of everything keeps the phone silent for it, if it does; `own` is the subject's own word."""
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
    """Each of everybody's sets in one shard, by what stands of its members."""
    return {
        kind: changed(nobody(), {member % SHARD_MEMBERS: kind in said.sets for member, said in standing.items()})
        for kind in OF_OVERALLS
    }
