"""Visibility rules: decide which bursts a user sees, for every list, badge and check."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from notifier.domain.bursts.burst import Burst, expires_at
from notifier.domain.bursts.sequencer import VISIBILITY_DEADLINE
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.account_preferences import DEFAULT_ACCOUNT_PREFERENCES, AccountPreferences
from notifier.domain.users.subject_preferences import NEVER, Volume, effective_volume

# Reading state: what a user has seen, read and hidden.

MAX_CLOCK_SKEW = timedelta(seconds=3)
"""Largest difference between the clocks of two machines at which the service is correct.

If clocks differ by more, caches may miss a change. `notifier doctor` fails earlier, at a difference of 2 s.
"""

CERTAINLY_VISIBLE_AGE = 2 * VISIBILITY_DEADLINE + MAX_CLOCK_SKEW
"""Age from which every burst is certainly visible. The `as_of` of a seen token is this long before its page.

A burst is readable within one VISIBILITY_DEADLINE of its opening. A page may rely on a comparison of the pull index
that is up to one more VISIBILITY_DEADLINE old. The coordinator's clock may be behind that of the page's server.
"""


class Mark(StrEnum):
    READ = "read"
    UNREAD = "unread"
    HIDDEN = "hidden"
    NONE = "none"
    """A mark was set and removed again. It counts as no mark in lists, but suppresses the alert as any mark does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenToken:
    """Token that comes with a page. Sending it marks as seen its items, and all that opened more than 5 s before it."""

    viewer: UserId
    as_of: datetime
    """All bursts that opened up to this time are covered."""
    newer: frozenset[BurstKey]
    """Bursts on the page that opened after `as_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Reading state of one user."""

    seen_at: datetime | None = None
    """Everything opened up to this time is seen. Only moves forward."""
    also_seen: frozenset[BurstKey] = frozenset()
    """Bursts on pages marked as seen, in addition to those up to `seen_at`."""

    by_burst: Mapping[BurstKey, Mark] = field(default_factory=dict)

    def is_unseen(self, burst: BurstKey, opened_at: datetime) -> bool:
        is_later = self.seen_at is None or opened_at > self.seen_at
        return is_later and not (self.also_seen and burst in self.also_seen)

    def with_seen(self, token: SeenToken) -> "Marks":
        seen_at = token.as_of if self.seen_at is None else max(self.seen_at, token.as_of)
        return replace(self, seen_at=seen_at, also_seen=self.also_seen | token.newer)

    def with_mark(self, bursts: Collection[BurstKey], mark: Mark) -> "Marks":
        return replace(self, by_burst={**self.by_burst, **dict.fromkeys(bursts, mark)})


class ListedItem(Protocol):
    """An item of the inbox: a burst or a digest."""

    @property
    def key(self) -> BurstKey: ...

    @property
    def opened_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """A user with everything that decides what the user sees."""

    user: UserId
    follows: Mapping[Subject, datetime]
    """Time from which the bursts of each followed subject are visible (`visible_from`).

    The time is in the future while the subject is muted, or its account is blocked.
    """
    blocked: Collection[UserId]
    """Accounts that the viewer blocks, and accounts that block the viewer."""
    volume: Mapping[Subject, Volume]
    """Volumes set for single subjects. `effective_volume` returns that of any subject."""
    marks: Marks
    account_preferences: AccountPreferences = DEFAULT_ACCOUNT_PREFERENCES

    @property
    def readable_authors(self) -> Collection[UserId]:
        """Return the authors whose protected tweets the viewer may see: the followed accounts, muted ones included."""
        return {subject.owner for subject in self.follows if subject.kind is Kind.MENTION}

    @property
    def listed_subjects(self) -> Collection[Subject]:
        """Return followed subjects that are not permanently muted or blocked, and whose volume is not OFF."""
        if self.account_preferences.volume is Volume.OFF:
            return []
        followed = [subject for subject, since in self.follows.items() if since < NEVER]
        if not self.volume:
            return followed
        return [subject for subject in followed if self.effective_volume(subject) is not Volume.OFF]

    @property
    def digest_subjects(self) -> Collection[Subject]:
        """Return the subjects of `listed_subjects` that are shown in the digest only."""
        if self.account_preferences.volume is not Volume.DIGEST and Volume.DIGEST not in self.volume.values():
            return []
        return [subject for subject in self.listed_subjects if self.effective_volume(subject) is Volume.DIGEST]

    def effective_volume(self, subject: Subject) -> Volume:
        """Return the subject's effective volume. The account-wide volume does not apply to mentions of the viewer."""
        account_volume = Volume.ALL if subject.kind is Kind.SELF else self.account_preferences.volume
        # Most viewers set no volume, and checking that costs less than hashing the subject.
        return (
            effective_volume(account_volume, self.volume.get(subject, Volume.DEFAULT))
            if self.volume
            else account_volume
        )


class HiddenReason(StrEnum):
    """Reason why a user doesn't see a burst, in the order of the checks.

    BLOCKED is checked twice: before MUTED, whether the mentioned account is blocked; after RESTRICTED, whether all
    mentioners are.
    """

    RETRACTED = "retracted"
    EXPIRED = "expired"
    NOT_FOLLOWED = "not_followed"
    MUTED = "muted"
    BEFORE_FOLLOW = "before_follow"
    """Opened before the follow, the end of a mute or user block, or a change of the volume."""
    RESTRICTED = "restricted"
    BLOCKED = "blocked"
    VOLUME = "volume"
    HIDDEN = "hidden"


class SuppressionReason(StrEnum):
    """Reason other than a `HiddenReason` why a user gets no alert for a burst (push suppression)."""

    ALERTS_OFF = "alerts_off"
    OPENER_BLOCKED = "opener_blocked"
    MARKED = "marked"
    SEEN = "seen"


def is_visible(burst: Burst, viewer: Viewer, *, now: datetime) -> bool:
    return hidden_reason(burst, viewer, now=now) is None


def is_unread(item: ListedItem, viewer: Viewer) -> bool:
    """Return whether the item is unread. Call only for visible items."""
    marks = viewer.marks
    match marks.by_burst.get(item.key) if marks.by_burst else None:
        case Mark.UNREAD:
            return True
        case Mark.READ | Mark.HIDDEN:
            return False
        case None | Mark.NONE:
            return marks.is_unseen(item.key, item.opened_at)


def may_push(burst: Burst, viewer: Viewer, *, now: datetime) -> bool:
    """Return whether the viewer may get an alert for the burst now."""
    return viewer.account_preferences.quiet_until(now) is None and may_push_after_quiet_hours(burst, viewer, now=now)


def may_push_after_quiet_hours(burst: Burst, viewer: Viewer, *, now: datetime) -> bool:
    """Return whether the viewer may get an alert for the burst, now or after quiet hours.

    Does not check `burst.silent`, which suppresses the alerts of all users.
    """
    return suppression_reason(burst, viewer, now=now) is None


def suppression_reason(burst: Burst, viewer: Viewer, *, now: datetime) -> SuppressionReason | HiddenReason | None:
    """Return the first rule that suppresses the viewer's alert regardless of quiet hours; None if no rule does.

    The alert shows the opener's name, so a block of the opener suppresses it. A mark of any kind, even `unread`, means
    that the user has already looked at the burst.
    """
    if not viewer.account_preferences.allows_alerts:
        return SuppressionReason.ALERTS_OFF
    if (reason := hidden_reason(burst, viewer, now=now)) is not None:
        return reason
    if burst.opener in viewer.blocked:
        return SuppressionReason.OPENER_BLOCKED
    if burst.key in viewer.marks.by_burst:
        return SuppressionReason.MARKED
    return None if viewer.marks.is_unseen(burst.key, burst.opened_at) else SuppressionReason.SEEN


def hidden_reason(burst: Burst, viewer: Viewer, *, now: datetime) -> HiddenReason | None:
    """Return the first rule that hides the burst from the viewer; None if it is visible."""
    if burst.is_retracted:
        return HiddenReason.RETRACTED
    if expires_at(burst.opened_at) <= now:
        return HiddenReason.EXPIRED
    if (reason := _reason_outside_audience(burst, viewer, now)) is not None:
        return reason
    if burst.restricted_to is not None and burst.restricted_to not in viewer.readable_authors:
        return HiddenReason.RESTRICTED
    if not burst.more_mentioners and all(name in viewer.blocked for name in burst.mentioners):
        return HiddenReason.BLOCKED
    if not viewer.effective_volume(burst.key.subject).admits(burst):
        return HiddenReason.VOLUME
    if viewer.marks.by_burst and viewer.marks.by_burst.get(burst.key) is Mark.HIDDEN:
        return HiddenReason.HIDDEN
    return None


def _reason_outside_audience(burst: Burst, viewer: Viewer, now: datetime) -> HiddenReason | None:
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
