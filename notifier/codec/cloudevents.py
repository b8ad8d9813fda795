"""Events of the services for tweets, the graph and accounts: CloudEvents 1.0 in JSON, one or a batch; unknown fields
are ignored."""

from datetime import datetime
from typing import Literal

import msgspec

from notifier.domain.audience.account_flags import AccountChange, Flag
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.mention import Event
from notifier.domain.bursts.retraction import Cause, Retraction
from notifier.domain.errors import BadEvent, NotifierError, TooLarge
from notifier.domain.upstream.graph_changes import Deed, GraphChange
from notifier.domain.upstream.validation import (
    APPROVED_TYPE,
    BLOCKED_TYPE,
    CHANGED_TYPE,
    DELETED_TYPE,
    EDITED_TYPE,
    ERASED_TYPE,
    EVENT_TYPE,
    FOLLOWED_TYPE,
    PROTECTED_TYPE,
    SEEN_TYPE,
    UNBLOCKED_TYPE,
    UNFOLLOWED_TYPE,
    checked_account,
    checked_author,
    checked_change,
    checked_event,
    checked_parting,
    checked_sighting,
    checked_tweet,
)
from notifier.domain.users.user_blocks import PartingChange

# Events as services write them: their type says what is in `data`; each is checked as it is taken.

Told = Event | GraphChange | PartingChange | AccountChange | Sighting | Retraction
"""What may be said by an event."""


class _Data(msgspec.Struct):
    tweet: str
    author: str
    mentions: list[str]
    text: str = ""
    protected: bool = False


class _Pair(msgspec.Struct):
    follower: str
    followed: str
    sequence: int


class _Parted(msgspec.Struct):
    blocker: str
    blocked: str
    sequence: int


class _Account(msgspec.Struct):
    user: str
    sequence: int
    verified: bool | None = None
    vip: bool | None = None
    deleted: bool | None = None


class _Tweet(msgspec.Struct):
    tweet: str
    author: str


class _Edit(_Tweet):
    mentions: list[str]
    text: str
    sequence: int


class _User(msgspec.Struct):
    user: str


class _CloudEvent(msgspec.Struct, tag_field="type"):
    specversion: Literal["1.0"]
    id: str
    source: str
    time: datetime


class _Mentioned(_CloudEvent, tag=EVENT_TYPE):
    data: _Data

    def checked(self, now: datetime) -> Event:
        return checked_event(
            source=self.source,
            id=self.id,
            tweet=self.data.tweet,
            author=self.data.author,
            mentioned=self.data.mentions,
            text=self.data.text,
            protected=self.data.protected,
            happened_at=self.time,
            now=now,
        )


class _Followed(_CloudEvent, tag=FOLLOWED_TYPE):
    data: _Pair

    def checked(self, now: datetime) -> GraphChange:
        return _checked(self, Deed.FOLLOW, now)


class _Approved(_Followed, tag=APPROVED_TYPE):
    """A follow like any other: nothing of before the approval is shown."""


class _Unfollowed(_CloudEvent, tag=UNFOLLOWED_TYPE):
    data: _Pair

    def checked(self, now: datetime) -> GraphChange:
        return _checked(self, Deed.UNFOLLOW, now)


class _Blocked(_CloudEvent, tag=BLOCKED_TYPE):
    data: _Parted

    def checked(self, now: datetime) -> PartingChange:
        return _checked_parting(self, blocks=True, now=now)


class _Unblocked(_CloudEvent, tag=UNBLOCKED_TYPE):
    data: _Parted

    def checked(self, now: datetime) -> PartingChange:
        return _checked_parting(self, blocks=False, now=now)


class _Changed(_CloudEvent, tag=CHANGED_TYPE):
    data: _Account

    def checked(self, now: datetime) -> AccountChange:
        data = self.data
        return checked_account(
            source=self.source,
            id=self.id,
            user=data.user,
            said={Flag.VERIFIED: data.verified, Flag.VIP: data.vip, Flag.DELETED: data.deleted},
            sequence=data.sequence,
            happened_at=self.time,
            now=now,
        )


class _Seen(_CloudEvent, tag=SEEN_TYPE):
    data: _User

    def checked(self, now: datetime) -> Sighting:
        return checked_sighting(source=self.source, id=self.id, user=self.data.user, happened_at=self.time, now=now)


class _Deleted(_CloudEvent, tag=DELETED_TYPE):
    data: _Tweet

    def checked(self, now: datetime) -> Retraction:
        tweet, author = self.data.tweet, self.data.author
        return checked_tweet(
            source=self.source,
            id=self.id,
            cause=Cause.DELETE,
            tweet=tweet,
            author=author,
            happened_at=self.time,
            now=now,
        )


class _Edited(_CloudEvent, tag=EDITED_TYPE):
    data: _Edit

    def checked(self, now: datetime) -> Retraction:
        return checked_tweet(
            source=self.source,
            id=self.id,
            cause=Cause.EDIT,
            tweet=self.data.tweet,
            author=self.data.author,
            happened_at=self.time,
            now=now,
            mentioned=self.data.mentions,
            text=self.data.text,
            sequence=self.data.sequence,
        )


class _Protected(_CloudEvent, tag=PROTECTED_TYPE):
    data: _User

    def checked(self, now: datetime) -> Retraction:
        return _taken_back(self, Cause.PROTECT, now)


class _Erased(_CloudEvent, tag=ERASED_TYPE):
    data: _User

    def checked(self, now: datetime) -> Retraction:
        return _taken_back(self, Cause.ERASE, now)


Written = (
    _Mentioned
    | _Followed
    | _Approved
    | _Unfollowed
    | _Blocked
    | _Unblocked
    | _Changed
    | _Seen
    | _Deleted
    | _Edited
    | _Protected
    | _Erased
)


def _taken_back(raw: _Protected | _Erased, cause: Cause, now: datetime) -> Retraction:
    user = raw.data.user
    return checked_author(source=raw.source, id=raw.id, cause=cause, user=user, happened_at=raw.time, now=now)


def _checked(raw: _Followed | _Unfollowed, deed: Deed, now: datetime) -> GraphChange:
    return checked_change(
        source=raw.source,
        id=raw.id,
        follower=raw.data.follower,
        followed=raw.data.followed,
        deed=deed,
        sequence=raw.data.sequence,
        happened_at=raw.time,
        now=now,
    )


def _checked_parting(raw: _Blocked | _Unblocked, *, blocks: bool, now: datetime) -> PartingChange:
    return checked_parting(
        source=raw.source,
        id=raw.id,
        blocker=raw.data.blocker,
        blocked=raw.data.blocked,
        blocks=blocks,
        sequence=raw.data.sequence,
        happened_at=raw.time,
        now=now,
    )


LARGEST_EVENT = 64 * 1024
LARGEST_BATCH = 1_000

ONE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


def read_event(body: bytes, now: datetime) -> Told:
    """Raises BadEvent or TooLarge."""
    return _raw(body).checked(now)


def read_events(body: bytes, now: datetime, *, batch: bool) -> list[Told | NotifierError]:
    """Each event, or what is wrong with it: one bad event doesn't spoil its batch."""
    return [_event_or_error(one, now) for one in (_split(body) if batch else [body])]


def speaks_of(body: bytes, *, batch: bool) -> set[str]:
    """The types of the events in it. By the same reading and without a clock: whatever `read_events` may find in these
    bytes is in the answer. What can't be read is passed over; raises BadEvent or TooLarge for what is no batch."""
    return {found for one in (_split(body) if batch else [body]) if (found := _type(one))}


def _type(body: bytes) -> str | None:
    try:
        return str(type(_raw(body)).__struct_config__.tag)
    except NotifierError:
        return None


def _raw(body: bytes) -> Written:
    if len(body) > LARGEST_EVENT:
        raise TooLarge(f"An event may have {LARGEST_EVENT} bytes.")
    try:
        found: Written = msgspec.json.decode(body, type=Written)
        return found
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadEvent(f"{error}.") from error


def _split(body: bytes) -> list[bytes]:
    try:
        found = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadEvent(f"The batch is not a JSON array: {error}.") from error
    if len(found) > LARGEST_BATCH:
        raise TooLarge(f"A batch may have {LARGEST_BATCH} events, not {len(found)}.")
    return [bytes(raw) for raw in found]


def _event_or_error(body: bytes, now: datetime) -> Told | NotifierError:
    try:
        return read_event(body, now)
    except NotifierError as error:
        return error
