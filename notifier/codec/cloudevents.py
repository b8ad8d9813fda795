"""The tweet service's events: CloudEvents 1.0 in JSON, one or a batch; unknown fields are ignored."""

import re
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from notifier.domain.errors import BadEvent, NotifierError, TooLarge
from notifier.domain.event import EVENT_TYPE, checked_event
from notifier.domain.mention import Event

LARGEST_EVENT = 64 * 1024
LARGEST_BATCH = 1_000

ONE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


class _Data(msgspec.Struct):
    tweet: str
    author: str
    mentions: list[str]
    text: str = ""
    protected: bool = False


class _CloudEvent(msgspec.Struct):
    specversion: Literal["1.0"]
    id: str
    source: str
    type: Annotated[str, msgspec.Meta(pattern=rf"\A{re.escape(EVENT_TYPE)}\Z")]
    time: datetime
    data: _Data


def read_event(body: bytes, now: datetime) -> Event:
    """Raises BadEvent or TooLarge."""
    if len(body) > LARGEST_EVENT:
        raise TooLarge(f"An event may have {LARGEST_EVENT} bytes.")
    try:
        raw = msgspec.json.decode(body, type=_CloudEvent)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadEvent(f"{error}.") from error
    return checked_event(
        source=raw.source,
        id=raw.id,
        tweet=raw.data.tweet,
        author=raw.data.author,
        mentioned=raw.data.mentions,
        text=raw.data.text,
        protected=raw.data.protected,
        happened_at=raw.time,
        now=now,
    )


def read_events(body: bytes, now: datetime, *, batch: bool) -> list[Event | NotifierError]:
    """Each event, or what is wrong with it: one bad event doesn't spoil its batch."""
    return [_event_or_error(one, now) for one in (_split(body) if batch else [body])]


def _split(body: bytes) -> list[bytes]:
    try:
        found = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadEvent(f"The batch is not a JSON array: {error}.") from error
    if len(found) > LARGEST_BATCH:
        raise TooLarge(f"A batch may have {LARGEST_BATCH} events, not {len(found)}.")
    return [bytes(raw) for raw in found]


def _event_or_error(body: bytes, now: datetime) -> Event | NotifierError:
    try:
        return read_event(body, now)
    except NotifierError as error:
        return error
