"""The predicate: what a person sees, as a function of durable facts. Every list, badge and check asks here."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from notifier.domain.bursts.burst import Burst, expires_at
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall
from notifier.domain.users.subject_preferences import NEVER, Volume, combined

# Marks: what a person has seen, read and hidden; and the token that says up to where a page may be `seen`.

SETTLED_AFTER = timedelta(seconds=5)
"""A page's `as_of` stays this far behind its `now`: what a burst may need to become visible, twice, and three seconds
for a clock that is wrong: the coordinator's, behind, or the page's, ahead."""


class Mark(StrEnum):
    READ = "read"
    UNREAD = "unread"
    HIDDEN = "hidden"
    NONE = "none"
    """Was marked, and that was taken back: as without a mark, but the person has dealt with it, and no phone rings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenToken:
    """Issued with a page by the server, so that nobody can mark as seen what no page could have shown."""

    viewer: UserId
    as_of: datetime
    newer: frozenset[BurstKey]
    """Keys on the page that opened after `as_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    seen_at: datetime | None = None
    """Everything opened up to here was seen; only ever moves forward."""
    also_seen: frozenset[BurstKey] = frozenset()
    """Bursts newer than `seen_at` that were on a page marked as seen."""
    by_burst: Mapping[BurstKey, Mark] = field(default_factory=dict)

    def unseen(self, burst: BurstKey, opened_at: datetime) -> bool:
        later = self.seen_at is None or opened_at > self.seen_at
        return later and not (self.also_seen and burst in self.also_seen)

    def with_seen(self, token: SeenToken) -> "Marks":
        seen_at = token.as_of if self.seen_at is None else max(self.seen_at, token.as_of)
        return replace(self, seen_at=seen_at, also_seen=self.also_seen | token.newer)

    def with_mark(self, bursts: Collection[BurstKey], mark: Mark) -> "Marks":
        return replace(self, by_burst={**self.by_burst, **dict.fromkeys(bursts, mark)})


class ListedBurst(Protocol):
    """What has a place in a list, and marks."""

    @property
    def key(self) -> BurstKey: ...

    @property
    def opened_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """A person with everything that decides what the person sees."""

    user: UserId
    follows: Mapping[Subject, datetime]
    """`visible_from` of every followed subject; of a muted one, or one that a block hides, it is still to come."""
    blocked: Collection[UserId]
    """Whom the viewer blocks, and who blocks the viewer."""
    volume: Mapping[Subject, Volume]
    """Of the subjects of which the person said so; the others are as everything is."""
    marks: Marks
    overall: Overall = NOTHING_SAID

    @property
    def authors(self) -> Collection[UserId]:
        """Whose protected tweets are for the viewer: muting is not leaving, so who muted the author is one of them."""
        return {subject.owner for subject in self.follows if subject.kind is Kind.MENTION}

    @property
    def heard(self) -> Collection[Subject]:
        """All that the viewer follows but what is muted for good or hidden by a block; nothing for who wants nothing of
        everything."""
        if self.overall.volume is Volume.OFF:
            return []
        return [subject for subject, since in self.follows.items() if since < NEVER]

    @property
    def digested(self) -> Collection[Subject]:
        """Those of them that a digest alone tells of."""
        if self.overall.volume is not Volume.DIGEST and Volume.DIGEST not in self.volume.values():
            return []
        return [subject for subject in self.heard if self.wanted(subject) is Volume.DIGEST]

    def wanted(self, subject: Subject) -> Volume:
        """How much of it. What is said of everything isn't about oneself."""
        overall = Volume.ALL if subject.kind is Kind.SELF else self.overall.volume
        # Most maps of a viewer are empty, and a key's hash costs more than to see that.
        return combined(overall, self.volume.get(subject, Volume.DEFAULT)) if self.volume else overall


class HiddenReason(StrEnum):
    """Why a person doesn't see a burst, in the order of asking. A block is asked of twice: of the account's before a
    mute, and later of those who mentioned it."""

    RETRACTED = "retracted"
    EXPIRED = "expired"
    NOT_FOLLOWED = "not_followed"
    MUTED = "muted"
    BEFORE_FOLLOW = "before_follow"
    RESTRICTED = "restricted"
    BLOCKED = "blocked"
    VOLUME = "volume"
    HIDDEN = "hidden"


class Unpushed(StrEnum):
    """Why no phone rings for what is visible."""

    ALERTS_OFF = "alerts_off"
    OPENER_BLOCKED = "opener_blocked"
    MARKED = "marked"
    SEEN = "seen"


def visible(burst: Burst, viewer: Viewer, *, now: datetime) -> bool:
    return denied(burst, viewer, now=now) is None


def unread(listed: ListedBurst, viewer: Viewer) -> bool:
    """Of what is visible."""
    marks = viewer.marks
    match marks.by_burst.get(listed.key) if marks.by_burst else None:
        case Mark.UNREAD:
            return True
        case Mark.READ | Mark.HIDDEN:
            return False
        case None | Mark.NONE:
            return marks.unseen(listed.key, listed.opened_at)


def pushable(burst: Burst, viewer: Viewer, *, now: datetime) -> bool:
    """Whether the viewer's phone may ring for it now."""
    return viewer.overall.asleep_until(now) is None and pushable_awake(burst, viewer, now=now)


def pushable_awake(burst: Burst, viewer: Viewer, *, now: datetime) -> bool:
    """Whether the viewer's phone may ring for it, at this hour or once the quiet ones are over. A burst that is silent
    is pushed to nobody at all, whoever it is."""
    return unpushed(burst, viewer, now=now) is None


def unpushed(burst: Burst, viewer: Viewer, *, now: datetime) -> Unpushed | HiddenReason | None:
    """The first rule that keeps the viewer's phone silent for it, whatever the hour; None when it may ring.

    Nothing is pushed to those who don't see it, who have dealt with it in whatever way (a mark, even `unread`, is set
    on what was looked at), whom a block parts from its opener, whose name the alert would say, or who wants no
    alerts.
    """
    if not viewer.overall.alerts:
        return Unpushed.ALERTS_OFF
    if (why := denied(burst, viewer, now=now)) is not None:
        return why
    if burst.opener in viewer.blocked:
        return Unpushed.OPENER_BLOCKED
    if burst.key in viewer.marks.by_burst:
        return Unpushed.MARKED
    return None if viewer.marks.unseen(burst.key, burst.opened_at) else Unpushed.SEEN


def denied(burst: Burst, viewer: Viewer, *, now: datetime) -> HiddenReason | None:
    """The first rule that hides the burst from the viewer; None when it is visible."""
    if burst.retracted:
        return HiddenReason.RETRACTED
    if expires_at(burst.opened_at) <= now:
        return HiddenReason.EXPIRED
    if (why := _not_in_audience(burst, viewer, now)) is not None:
        return why
    if burst.restricted_to is not None and burst.restricted_to not in viewer.authors:
        return HiddenReason.RESTRICTED
    if not burst.more_mentioners and all(name in viewer.blocked for name in burst.mentioners):
        return HiddenReason.BLOCKED
    if not viewer.wanted(burst.key.subject).admits(burst):
        return HiddenReason.VOLUME
    if viewer.marks.by_burst and viewer.marks.by_burst.get(burst.key) is Mark.HIDDEN:
        return HiddenReason.HIDDEN
    return None


def _not_in_audience(burst: Burst, viewer: Viewer, now: datetime) -> HiddenReason | None:
    subject = burst.key.subject
    if subject.kind is Kind.SELF:
        return None if subject.owner == viewer.user else HiddenReason.NOT_FOLLOWED
    if (since := viewer.follows.get(subject)) is None:
        return HiddenReason.NOT_FOLLOWED
    if subject.owner in viewer.blocked:
        return HiddenReason.BLOCKED
    if burst.opened_at >= since:
        return None
    return HiddenReason.MUTED if since > now else HiddenReason.BEFORE_FOLLOW
