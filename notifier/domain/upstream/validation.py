"""What an event may be: the limits that the gateway holds those to who send them."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from notifier.domain.audience.account_flags import AccountChange, Flag
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.bursts.mention import Event, EventId
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.errors import BadEvent
from notifier.domain.ids import UserId
from notifier.domain.upstream.graph_changes import Deed, GraphChange
from notifier.domain.users.user_blocks import PartingChange

EVENT_TYPE = "notifier.tweet.mentioned.v1"
FOLLOWED_TYPE, UNFOLLOWED_TYPE = "notifier.account.followed.v1", "notifier.account.unfollowed.v1"
APPROVED_TYPE = "notifier.account.approved.v1"
"""A request to follow was granted: a follow from then on."""
BLOCKED_TYPE, UNBLOCKED_TYPE = "notifier.account.blocked.v1", "notifier.account.unblocked.v1"
CHANGED_TYPE = "notifier.account.changed.v1"
SEEN_TYPE = "notifier.account.seen.v1"
DELETED_TYPE, EDITED_TYPE = "notifier.tweet.deleted.v1", "notifier.tweet.edited.v1"
PROTECTED_TYPE, ERASED_TYPE = "notifier.account.protected.v1", "notifier.account.erased.v1"

LONGEST_ID = 256
LONGEST_TEXT = 1_000
"""Characters; a longer text is cut, because only its beginning is ever shown."""
MOST_MENTIONED = 100
HIGHEST_SEQUENCE = 2**53 - 1
"""Of a pair or an account: as far as every sender's JSON counts."""
CLOCKS_MAY_DIFFER = timedelta(minutes=5)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""The Unicode categories Cc and Cs, which are closed."""
_CONTROL_IN_TEXT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""The same without the line feed."""


def checked_event(
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
    """The event, or BadEvent with the field that is wrong."""
    names = _mentioned(mentioned)
    if not names:
        raise BadEvent("data.mentions names nobody.")
    return Event(
        id=EventId(_name("source", source), _name("id", id)),
        tweet=_name("data.tweet", tweet),
        author=UserId(_name("data.author", author)),
        mentioned=names,
        text=_shown(text)[:LONGEST_TEXT],
        protected=protected,
        happened_at=_within_retention(happened_at, now),
        accepted_at=now,
    )


def checked_change(
    *,
    source: str,
    id: str,
    follower: str,
    followed: str,
    deed: Deed,
    sequence: int,
    happened_at: datetime,
    now: datetime,
) -> GraphChange:
    """The change, or BadEvent with the field that is wrong."""
    if follower == followed:
        raise BadEvent(f"data.follower and data.followed are both {follower}.")
    return GraphChange(
        id=EventId(_name("source", source), _name("id", id)),
        follower=UserId(_name("data.follower", follower)),
        followed=UserId(_name("data.followed", followed)),
        deed=deed,
        sequence=_sequence(sequence),
        # A clock that is ahead mustn't hide what comes meanwhile.
        at=min(_happened(happened_at, now), now),
    )


def checked_parting(
    *,
    source: str,
    id: str,
    blocker: str,
    blocked: str,
    blocks: bool,
    sequence: int,
    happened_at: datetime,
    now: datetime,
) -> PartingChange:
    """The change, or BadEvent with the field that is wrong."""
    if blocker == blocked:
        raise BadEvent(f"data.blocker and data.blocked are both {blocker}.")
    return PartingChange(
        id=EventId(_name("source", source), _name("id", id)),
        blocker=UserId(_name("data.blocker", blocker)),
        blocked=UserId(_name("data.blocked", blocked)),
        blocks=blocks,
        sequence=_sequence(sequence),
        at=min(_happened(happened_at, now), now),
    )


def checked_account(
    *,
    source: str,
    id: str,
    user: str,
    said: Mapping[Flag, bool | None],
    sequence: int,
    happened_at: datetime,
    now: datetime,
) -> AccountChange:
    """The change, or BadEvent with the field that is wrong. A flag of which nothing is said is None."""
    known = {flag: on for flag, on in said.items() if on is not None}
    if not known:
        raise BadEvent(f"data says none of {', '.join(said)}.")
    _happened(happened_at, now)
    return AccountChange(
        id=EventId(_name("source", source), _name("id", id)),
        user=UserId(_name("data.user", user)),
        sequence=_sequence(sequence),
        said=known,
    )


def checked_tweet(
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
    """That a tweet was deleted, or edited: then it may name nobody any more."""
    return Retraction(
        id=EventId(_name("source", source), _name("id", id)),
        cause=cause,
        author=UserId(_name("data.author", author)),
        tweet=_name("data.tweet", tweet),
        at=min(_happened(happened_at, now), now),
        sequence=_sequence(sequence),
        mentioned=_mentioned(mentioned),
        text=_shown(text)[:LONGEST_TEXT],
    )


def checked_author(
    *, source: str, id: str, cause: RetractionCause, user: str, happened_at: datetime, now: datetime
) -> Retraction:
    """That all an author has written until then is nobody's any more, or the author's followers' alone."""
    return Retraction(
        id=EventId(_name("source", source), _name("id", id)),
        cause=cause,
        author=UserId(_name("data.user", user)),
        # A clock that is ahead mustn't take back what comes meanwhile.
        at=min(_happened(happened_at, now), now),
    )


def checked_sighting(*, source: str, id: str, user: str, happened_at: datetime, now: datetime) -> Sighting:
    """The sighting, or BadEvent with the field that is wrong."""
    return Sighting(
        id=EventId(_name("source", source), _name("id", id)),
        user=UserId(_name("data.user", user)),
        at=_happened(happened_at, now),
    )


def fault(value: str) -> str | None:
    """Why it is no id, as the end of a sentence."""
    if not value:
        return "is empty"
    if len(value) > LONGEST_ID:
        return f"has {len(value)} characters; {LONGEST_ID} are the most"
    if _CONTROL.search(value):
        return "has control characters"
    return None


def _mentioned(names: Iterable[str]) -> tuple[UserId, ...]:
    distinct = dict.fromkeys(names)
    if len(distinct) > MOST_MENTIONED:
        raise BadEvent(f"data.mentions names {len(distinct)} accounts; {MOST_MENTIONED} are the most.")
    return tuple(UserId(_name("data.mentions", name)) for name in distinct)


def _sequence(value: int) -> int:
    if not 1 <= value <= HIGHEST_SEQUENCE:
        raise BadEvent(f"data.sequence is {value}; it counts from 1 to {HIGHEST_SEQUENCE}.")
    return value


def _name(field: str, value: str) -> str:
    if why := fault(value):
        raise BadEvent(f"{field} {why}.")
    return value


def _shown(text: str) -> str:
    return _CONTROL_IN_TEXT.sub("", text)


def _within_retention(happened_at: datetime, now: datetime) -> datetime:
    if _happened(happened_at, now) <= now - RETENTION:
        raise BadEvent("time is more than 90 days ago.")
    return happened_at


def _happened(at: datetime, now: datetime) -> datetime:
    if at.tzinfo is None:
        raise BadEvent("time has no time zone.")
    if at > now + CLOCKS_MAY_DIFFER:
        raise BadEvent("time is in the future.")
    return at
