"""Validation of upstream events: limits that the gateway enforces."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from notifier.domain.audience.account_flags import AccountChange, Flag
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.bursts.events_and_mentions import Event, EventId
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.errors import BadEvent
from notifier.domain.ids import UserId
from notifier.domain.upstream.graph_stream_records import FollowAction, FollowChange
from notifier.domain.users.user_blocks import UserBlockChange

MENTIONED_TYPE = "notifier.tweet.mentioned.v1"
FOLLOWED_TYPE, UNFOLLOWED_TYPE = "notifier.account.followed.v1", "notifier.account.unfollowed.v1"
FOLLOW_APPROVED_TYPE = "notifier.account.approved.v1"
"""A follow request was approved. It has the same effect as a follow."""
BLOCKED_TYPE, UNBLOCKED_TYPE = "notifier.account.blocked.v1", "notifier.account.unblocked.v1"
CHANGED_TYPE = "notifier.account.changed.v1"
SEEN_TYPE = "notifier.account.seen.v1"
DELETED_TYPE, EDITED_TYPE = "notifier.tweet.deleted.v1", "notifier.tweet.edited.v1"
PROTECTED_TYPE, ERASED_TYPE = "notifier.account.protected.v1", "notifier.account.erased.v1"

MAX_ID_LENGTH = 256
MAX_TEXT_LENGTH = 1_000
"""Maximum number of characters of a text. Longer texts are cut, because only the beginning is shown."""
MAX_MENTIONED_ACCOUNTS = 100
HIGHEST_SEQUENCE = 2**53 - 1
"""Highest sequence number: the largest integer that every JSON implementation keeps exactly."""
UPSTREAM_CLOCK_SKEW = timedelta(minutes=5)
"""How far the time of an event may be in the future."""

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters (Unicode category Cc) and lone surrogates (Cs). Unicode never adds characters to these two."""
_CONTROL_CHARACTERS_IN_TEXT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""The characters of _CONTROL_CHARACTERS without the line feed."""


def checked_mention_event(
    *,
    source: str,
    id: str,
    tweet: str,
    author: str,
    mentioned: Iterable[str],
    text: str,
    protected: bool,
    happened_at: datetime,
    now: datetime,
) -> Event:
    """Build the event. Raises BadEvent with the field that is wrong."""
    accounts = _checked_mentions(mentioned)
    if not accounts:
        raise BadEvent("data.mentions is empty.")
    return Event(
        id=EventId(_checked_id("source", source), _checked_id("id", id)),
        tweet=_checked_id("data.tweet", tweet),
        author=UserId(_checked_id("data.author", author)),
        mentioned=accounts,
        text=_without_control_characters(text)[:MAX_TEXT_LENGTH],
        protected=protected,
        happened_at=_within_retention(happened_at, now),
        accepted_at=now,
    )


def checked_follow_change(
    *,
    source: str,
    id: str,
    follower: str,
    followed: str,
    action: FollowAction,
    sequence: int,
    happened_at: datetime,
    now: datetime,
) -> FollowChange:
    """Build the follow or unfollow. Raises BadEvent with the field that is wrong."""
    if follower == followed:
        raise BadEvent(f"data.follower and data.followed are both {follower}.")
    return FollowChange(
        id=EventId(_checked_id("source", source), _checked_id("id", id)),
        follower=UserId(_checked_id("data.follower", follower)),
        followed=UserId(_checked_id("data.followed", followed)),
        action=action,
        sequence=_checked_sequence(sequence),
        # If the sender's clock is ahead, bursts that open from now until the event's time must not be hidden.
        at=min(_checked_time(happened_at, now), now),
    )


def checked_user_block(
    *,
    source: str,
    id: str,
    blocker: str,
    blocked: str,
    blocks: bool,
    sequence: int,
    happened_at: datetime,
    now: datetime,
) -> UserBlockChange:
    """Build the user block or unblock. Raises BadEvent with the field that is wrong."""
    if blocker == blocked:
        raise BadEvent(f"data.blocker and data.blocked are both {blocker}.")
    return UserBlockChange(
        id=EventId(_checked_id("source", source), _checked_id("id", id)),
        blocker=UserId(_checked_id("data.blocker", blocker)),
        blocked=UserId(_checked_id("data.blocked", blocked)),
        blocks=blocks,
        sequence=_checked_sequence(sequence),
        at=min(_checked_time(happened_at, now), now),
    )


def checked_account_change(
    *,
    source: str,
    id: str,
    user: str,
    flags: Mapping[Flag, bool | None],
    sequence: int,
    happened_at: datetime,
    now: datetime,
) -> AccountChange:
    """Build the account change. Raises BadEvent with the field that is wrong.

    None leaves a flag unchanged. At least one flag must have a value.
    """
    new_flags = {flag: is_set for flag, is_set in flags.items() if is_set is not None}
    if not new_flags:
        raise BadEvent(f"data must set at least one of {', '.join(flags)}.")
    _checked_time(happened_at, now)
    return AccountChange(
        id=EventId(_checked_id("source", source), _checked_id("id", id)),
        user=UserId(_checked_id("data.user", user)),
        sequence=_checked_sequence(sequence),
        flags=new_flags,
    )


def checked_tweet_retraction(
    *,
    source: str,
    id: str,
    cause: RetractionCause,
    tweet: str,
    author: str,
    happened_at: datetime,
    now: datetime,
    mentioned: Iterable[str] = (),
    text: str = "",
    sequence: int = 1,
) -> Retraction:
    """Build the deletion or edit of a tweet. The edited text need not mention an account. Raises BadEvent."""
    return Retraction(
        id=EventId(_checked_id("source", source), _checked_id("id", id)),
        cause=cause,
        author=UserId(_checked_id("data.author", author)),
        tweet=_checked_id("data.tweet", tweet),
        at=min(_checked_time(happened_at, now), now),
        sequence=_checked_sequence(sequence),
        mentioned=_checked_mentions(mentioned),
        text=_without_control_characters(text)[:MAX_TEXT_LENGTH],
    )


def checked_author_retraction(
    *, source: str, id: str, cause: RetractionCause, user: str, happened_at: datetime, now: datetime
) -> Retraction:
    """Build the erasure or protection of everything that an author has written so far. Raises BadEvent."""
    return Retraction(
        id=EventId(_checked_id("source", source), _checked_id("id", id)),
        cause=cause,
        author=UserId(_checked_id("data.user", user)),
        # If the sender's clock is ahead, tweets written from now until the event's time must not be retracted.
        at=min(_checked_time(happened_at, now), now),
    )


def checked_sighting(*, source: str, id: str, user: str, happened_at: datetime, now: datetime) -> Sighting:
    """Build the sighting. Raises BadEvent with the field that is wrong."""
    return Sighting(
        id=EventId(_checked_id("source", source), _checked_id("id", id)),
        user=UserId(_checked_id("data.user", user)),
        at=_checked_time(happened_at, now),
    )


def id_problem(value: str) -> str | None:
    """Return what is wrong with the id, as in "is empty", without naming the id; None if it is valid."""
    if not value:
        return "is empty"
    if len(value) > MAX_ID_LENGTH:
        return f"has {len(value)} characters; the limit is {MAX_ID_LENGTH}"
    if _CONTROL_CHARACTERS.search(value):
        return "has control characters"
    return None


def _checked_mentions(names: Iterable[str]) -> tuple[UserId, ...]:
    distinct = dict.fromkeys(names)
    if len(distinct) > MAX_MENTIONED_ACCOUNTS:
        raise BadEvent(f"data.mentions names {len(distinct)} accounts; the limit is {MAX_MENTIONED_ACCOUNTS}.")
    return tuple(UserId(_checked_id("data.mentions", name)) for name in distinct)


def _checked_sequence(value: int) -> int:
    if not 1 <= value <= HIGHEST_SEQUENCE:
        raise BadEvent(f"data.sequence is {value}; it must be from 1 to {HIGHEST_SEQUENCE}.")
    return value


def _checked_id(field: str, value: str) -> str:
    if problem := id_problem(value):
        raise BadEvent(f"{field} {problem}.")
    return value


def _without_control_characters(text: str) -> str:
    return _CONTROL_CHARACTERS_IN_TEXT.sub("", text)


def _within_retention(happened_at: datetime, now: datetime) -> datetime:
    if _checked_time(happened_at, now) <= now - RETENTION:
        raise BadEvent(f"time is more than {RETENTION.days} days ago.")
    return happened_at


def _checked_time(happened_at: datetime, now: datetime) -> datetime:
    if happened_at.tzinfo is None:
        raise BadEvent("time has no time zone.")
    if happened_at > now + UPSTREAM_CLOCK_SKEW:
        raise BadEvent("time is in the future.")
    return happened_at
