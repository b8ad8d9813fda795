"""Events of the services for tweets, the graph and accounts: CloudEvents 1.0 in JSON, one or a batch; unknown fields
are ignored."""

from datetime import datetime

import msgspec

from notifier.codec.written import Told, Written
from notifier.domain.errors import BadEvent, NotifierError, TooLarge

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
