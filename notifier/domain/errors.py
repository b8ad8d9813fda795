"""Everything that can be wrong, as one tree; an error's docstring is its message.

NotifierError
├── Refused                     the caller's input can't be taken (HTTP 4xx, CLI exit code 2)
│   ├── BadSubject  BadEvent  TooLarge  WrongType  EventConflict  NotFound
│   ├── BadCursor  BadSeen  BadToken  Forbidden  BadThrottle  BadMark  TooManyStreams  NotSupported
│   ├── BadImport  BadPreference  NumberTaken  TooManyRequests
├── Unavailable                 a part doesn't answer now; try again (HTTP 503)
│   ├── StoreUnavailable  LogUnavailable  CacheUnavailable  QueueUnavailable  StreamsFull  NoAnswer
│   ├── IssuerUnavailable
├── Full                        the disk is full; writes are refused, reads go on (HTTP 507)
├── Environment                 this machine or folder can't run it (CLI exit code 3)
│   ├── BadSetting  SchemaNewer  SchemaOlder  SchemaChanged  DataLocked  Unwritable  NoData  NotRunning
│   ├── PortTaken  NoValkey  NotEmpty  NotOurs  OtherWorld
└── Poison                      a record or blob that will never be readable (dead letters)
"""

from datetime import timedelta


class NotifierError(Exception):
    """Something went wrong."""

    code = "error"

    def __init__(self, detail: str = "", again_after: timedelta | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.again_after = again_after

    @property
    def title(self) -> str:
        """The class's docstring, which is written for the person who reads the refusal."""
        return (type(self).__doc__ or "").strip().split("\n")[0]

    def __str__(self) -> str:
        return f"{self.title} {self.detail}".strip()


class Refused(NotifierError):
    """The request can't be taken as it is."""

    code = "refused"


class BadSubject(Refused):
    """A subject is written kind:owner and a burst kind:owner#seq."""

    code = "bad_subject"


class BadEvent(Refused):
    """The event is not a CloudEvent of one of the types that are taken."""

    code = "bad_event"


class TooLarge(Refused):
    """The body is larger than this service takes."""

    code = "too_large"


class WrongType(Refused):
    """The content type is not one that this route takes."""

    code = "wrong_content_type"


class EventConflict(Refused):
    """The same source and id came before with another body."""

    code = "event_conflict"


class NotFound(Refused):
    """There is no such thing."""

    code = "not_found"


class BadCursor(Refused):
    """The cursor is not one that this service issued."""

    code = "bad_cursor"


class BadSeen(Refused):
    """The seen token is not one that came with a page of this inbox."""

    code = "bad_seen"


class BadToken(Refused):
    """The token is missing, expired or not one that this service issued."""

    code = "bad_token"


class Forbidden(Refused):
    """The token is good, but not for this."""

    code = "forbidden"


class BadMark(Refused):
    """A mark is one of read, unread and hidden, for a burst that exists."""

    code = "bad_mark"


class TooManyStreams(Refused):
    """The person has as many live streams open as one may have; close one of them."""

    code = "too_many_streams"


class TooManyRequests(Refused):
    """More was asked for than one may ask for in a while; come back after the seconds that Retry-After says."""

    code = "too_many_requests"


class NotSupported(Refused):
    """This service can't do that yet; nothing was done."""

    code = "not_supported"


class NumberTaken(Refused):
    """Everybody has one number, and nobody another's."""

    code = "number_taken"


class BadPreference(Refused):
    """A preference is a volume of all, first and off, or a mute, of the mentions of another account."""

    code = "bad_preference"


class BadImport(Refused):
    """The file can't be imported."""

    code = "bad_import"


class BadThrottle(Refused):
    """A throttle needs a tier, a rate or a pause, a reason, and when it ends."""

    code = "bad_throttle"


class Unavailable(NotifierError):
    """A part of the system doesn't answer right now; nothing was lost, try again."""

    code = "unavailable"


class StoreUnavailable(Unavailable):
    """The durable store doesn't answer right now."""

    code = "store_unavailable"


class LogUnavailable(Unavailable):
    """The event log doesn't answer right now."""

    code = "log_unavailable"


class CacheUnavailable(Unavailable):
    """Redis doesn't answer right now."""

    code = "cache_unavailable"


class QueueUnavailable(Unavailable):
    """The task queue doesn't answer right now."""

    code = "queue_unavailable"


class StreamsFull(Unavailable):
    """This process has as many live streams open as it takes, or is just ending; poll, and try again later."""

    code = "streams_full"


class IssuerUnavailable(Unavailable):
    """The keys of the tokens' issuer can't be had right now, so nobody can tell whether a token is good."""

    code = "issuer_unavailable"


class NoAnswer(Unavailable):
    """No service answers at this address; `notifier up` starts one."""

    code = "no_answer"


class Full(NotifierError):
    """The disk is full: writes are refused, reads go on."""

    code = "disk_full"


class Environment(NotifierError):
    """This machine can't run it as asked."""

    code = "environment"


class BadSetting(Environment):
    """A setting can't be read."""

    code = "bad_setting"


class SchemaNewer(Environment):
    """The store was written by a newer version of this software; use that version, or another folder or keyspace."""

    code = "schema_newer"


class SchemaOlder(Environment):
    """The store lacks what this version needs; `notifier migrate` brings it there."""

    code = "schema_older"


class SchemaChanged(Environment):
    """A migration that was applied before has been edited since."""

    code = "schema_changed"


class DataLocked(Environment):
    """The data folder is in use by another running notifier."""

    code = "data_locked"


class Unwritable(Environment):
    """The data folder can't be written to."""

    code = "unwritable"


class PortTaken(Environment):
    """The port is taken by another program; choose another with --port, or 0 for any."""

    code = "port_taken"


class NoValkey(Environment):
    """There is no Valkey binary for this platform; install a Redis or Valkey and name it with NOTIFIER_REDIS_URL."""

    code = "no_valkey"


class NotEmpty(Environment):
    """The folder isn't empty, and what is in it would be judged too; name another, or one that is to be made."""

    code = "not_empty"


class NotOurs(Environment):
    """The folder holds what isn't a notifier's to use or to throw away, and is left alone; name another folder."""

    code = "not_ours"


class OtherWorld(Environment):
    """The data folder holds another world, and people would have the follows of both; name another folder."""

    code = "other_world"


class NoData(Environment):
    """There is no data folder here; `notifier up` makes one, and --data names another."""

    code = "no_data"


class NotRunning(Environment):
    """No notifier is running on this data folder; start one with `notifier up`."""

    code = "not_running"


OUTAGES = (Unavailable, Full, Environment)
"""None of them is the fault of what was being done: that waits, uses up none of its tries, and is done when they pass.
The last is met after the start where the store was away then: a schema that lacks something, or no keyspace at all."""


class Poison(NotifierError):
    """The bytes can't be understood and never will be."""

    code = "poison"
