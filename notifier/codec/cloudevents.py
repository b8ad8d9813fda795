"""Decodes and validates upstream events: CloudEvents 1.0 in JSON, single or in batches.

Unknown fields are ignored.
"""

from datetime import datetime
from typing import Literal

import msgspec

from notifier.domain.audience.account_flags import AccountChange, Flag
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.events_and_mentions import Event
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.errors import BadEvent, NotifierError, TooLarge
from notifier.domain.upstream.graph_stream_records import FollowAction, FollowChange
from notifier.domain.upstream.validation import (
    BLOCKED_TYPE,
    CHANGED_TYPE,
    DELETED_TYPE,
    EDITED_TYPE,
    ERASED_TYPE,
    FOLLOW_APPROVED_TYPE,
    FOLLOWED_TYPE,
    MENTIONED_TYPE,
    PROTECTED_TYPE,
    SEEN_TYPE,
    UNBLOCKED_TYPE,
    UNFOLLOWED_TYPE,
    checked_account_change,
    checked_author_retraction,
    checked_follow_change,
    checked_mention_event,
    checked_sighting,
    checked_tweet_retraction,
    checked_user_block,
)
from notifier.domain.users.user_blocks import UserBlockChange

# Events as upstream services write them. The type of an event determines its `data`.

UpstreamEvent = Event | FollowChange | UserBlockChange | AccountChange | Sighting | Retraction


class _MentionData(msgspec.Struct):
    tweet: str
    author: str
    mentions: list[str]
    text: str = ""
    protected: bool = False


class _FollowData(msgspec.Struct):
    follower: str
    followed: str
    sequence: int


class _UserBlockData(msgspec.Struct):
    blocker: str
    blocked: str
    sequence: int


class _AccountData(msgspec.Struct):
    user: str
    sequence: int
    verified: bool | None = None
    vip: bool | None = None
    deleted: bool | None = None


class _TweetData(msgspec.Struct):
    tweet: str
    author: str


class _EditData(_TweetData):
    mentions: list[str]
    text: str
    sequence: int


class _UserData(msgspec.Struct):
    user: str


class _CloudEvent(msgspec.Struct, tag_field="type"):
    specversion: Literal["1.0"]
    id: str
    source: str
    time: datetime

    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)


class _Mentioned(_CloudEvent, tag=MENTIONED_TYPE):
    data: _MentionData

    def checked(self, now: datetime) -> Event:
        return checked_mention_event(
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
    data: _FollowData

    def checked(self, now: datetime) -> FollowChange:
        return _checked_follow(self, FollowAction.FOLLOW, now)


class _Approved(_Followed, tag=FOLLOW_APPROVED_TYPE):
    """An approved follow request. It has the same effect as a follow."""


class _Unfollowed(_CloudEvent, tag=UNFOLLOWED_TYPE):
    data: _FollowData

    def checked(self, now: datetime) -> FollowChange:
        return _checked_follow(self, FollowAction.UNFOLLOW, now)


class _Blocked(_CloudEvent, tag=BLOCKED_TYPE):
    data: _UserBlockData

    def checked(self, now: datetime) -> UserBlockChange:
        return _checked_user_block(self, blocks=True, now=now)


class _Unblocked(_CloudEvent, tag=UNBLOCKED_TYPE):
    data: _UserBlockData

    def checked(self, now: datetime) -> UserBlockChange:
        return _checked_user_block(self, blocks=False, now=now)


class _Changed(_CloudEvent, tag=CHANGED_TYPE):
    data: _AccountData

    def checked(self, now: datetime) -> AccountChange:
        data = self.data
        return checked_account_change(
            source=self.source,
            id=self.id,
            user=data.user,
            flags={Flag.VERIFIED: data.verified, Flag.VIP: data.vip, Flag.DELETED: data.deleted},
            sequence=data.sequence,
            happened_at=self.time,
            now=now,
        )


class _Seen(_CloudEvent, tag=SEEN_TYPE):
    data: _UserData

    def checked(self, now: datetime) -> Sighting:
        return checked_sighting(source=self.source, id=self.id, user=self.data.user, happened_at=self.time, now=now)


class _Deleted(_CloudEvent, tag=DELETED_TYPE):
    data: _TweetData

    def checked(self, now: datetime) -> Retraction:
        tweet, author = self.data.tweet, self.data.author
        return checked_tweet_retraction(
            source=self.source,
            id=self.id,
            cause=RetractionCause.DELETE,
            tweet=tweet,
            author=author,
            happened_at=self.time,
            now=now,
        )


class _Edited(_CloudEvent, tag=EDITED_TYPE):
    data: _EditData

    def checked(self, now: datetime) -> Retraction:
        return checked_tweet_retraction(
            source=self.source,
            id=self.id,
            cause=RetractionCause.EDIT,
            tweet=self.data.tweet,
            author=self.data.author,
            happened_at=self.time,
            now=now,
            mentioned=self.data.mentions,
            text=self.data.text,
            sequence=self.data.sequence,
        )


class _Protected(_CloudEvent, tag=PROTECTED_TYPE):
    data: _UserData

    def checked(self, now: datetime) -> Retraction:
        return _checked_author_retraction(self, RetractionCause.PROTECT, now)


class _Erased(_CloudEvent, tag=ERASED_TYPE):
    data: _UserData

    def checked(self, now: datetime) -> Retraction:
        return _checked_author_retraction(self, RetractionCause.ERASE, now)


CloudEventStruct = (
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


def _checked_author_retraction(cloud_event: _Protected | _Erased, cause: RetractionCause, now: datetime) -> Retraction:
    user = cloud_event.data.user
    return checked_author_retraction(
        source=cloud_event.source, id=cloud_event.id, cause=cause, user=user, happened_at=cloud_event.time, now=now
    )


def _checked_follow(cloud_event: _Followed | _Unfollowed, action: FollowAction, now: datetime) -> FollowChange:
    return checked_follow_change(
        source=cloud_event.source,
        id=cloud_event.id,
        follower=cloud_event.data.follower,
        followed=cloud_event.data.followed,
        action=action,
        sequence=cloud_event.data.sequence,
        happened_at=cloud_event.time,
        now=now,
    )


def _checked_user_block(cloud_event: _Blocked | _Unblocked, *, blocks: bool, now: datetime) -> UserBlockChange:
    return checked_user_block(
        source=cloud_event.source,
        id=cloud_event.id,
        blocker=cloud_event.data.blocker,
        blocked=cloud_event.data.blocked,
        blocks=blocks,
        sequence=cloud_event.data.sequence,
        happened_at=cloud_event.time,
        now=now,
    )


MAX_EVENT_BYTES = 64 * 1024
MAX_BATCH_EVENTS = 1_000

SINGLE_CONTENT_TYPE = "application/cloudevents+json"
BATCH_CONTENT_TYPE = "application/cloudevents-batch+json"


class ReceivedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a request, decoded and validated."""

    type: str | None
    """CloudEvents type, also of an event that is refused by validation; None if the event can't be decoded."""
    event: UpstreamEvent | NotifierError
    """The event, or the reason for its refusal."""


_EVENT_DECODER: msgspec.json.Decoder[CloudEventStruct] = msgspec.json.Decoder(CloudEventStruct)
_BATCH_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


def read_event(body: bytes, now: datetime) -> ReceivedEvent:
    """Decode and validate one event that arrives at `now`."""
    return _read(body, now)


def read_batch(body: bytes, now: datetime) -> list[ReceivedEvent]:
    """Decode and validate each event of a batch. An invalid event does not affect the other events.

    Raises BadEvent if the body is not a JSON array, and TooLarge if it has too many events.
    """
    try:
        events = _BATCH_DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadEvent(f"The batch is not a JSON array: {error}.") from error
    if len(events) > MAX_BATCH_EVENTS:
        raise TooLarge(f"The limit of a batch is {MAX_BATCH_EVENTS} events; this one has {len(events)}.")
    return [_read(event, now) for event in events]


def _read(body: bytes | msgspec.Raw, now: datetime) -> ReceivedEvent:
    try:
        cloud_event = _decode(body)
    except NotifierError as error:
        return ReceivedEvent(type=None, event=error)
    try:
        return ReceivedEvent(type=cloud_event.type, event=cloud_event.checked(now))
    except NotifierError as error:
        return ReceivedEvent(type=cloud_event.type, event=error)


def _decode(body: bytes | msgspec.Raw) -> CloudEventStruct:
    if len(body) > MAX_EVENT_BYTES:
        raise TooLarge(f"The limit of an event is {MAX_EVENT_BYTES} bytes.")
    try:
        return _EVENT_DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadEvent(f"{error}.") from error
