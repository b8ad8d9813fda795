"""Errors that the caller can correct (HTTP 4xx, exit code 2)."""

from notifier.domain.errors.root_and_uncategorized_errors import NotifierError


class Refused(NotifierError):
    """The request is invalid."""

    code = "refused"


class BadSubject(Refused):
    """A subject is written kind:owner and a burst kind:owner#seq."""

    code = "bad_subject"


class BadEvent(Refused):
    """The event is not a CloudEvent of a supported type."""

    code = "bad_event"


class TooLarge(Refused):
    """The body is larger than this service takes."""

    code = "too_large"


class WrongType(Refused):
    """This route doesn't accept the content type."""

    code = "wrong_content_type"


class EventConflict(Refused):
    """An event with this source and id was accepted before with a different body."""

    code = "event_conflict"


class NotFound(Refused):
    """Not found."""

    code = "not_found"


class BadCursor(Refused):
    """The cursor is not one that this service issued."""

    code = "bad_cursor"


class BadSeenToken(Refused):
    """The seen token is not one that came with a page of this inbox."""

    code = "bad_seen"


class BadToken(Refused):
    """The token is missing or expired, or this service doesn't accept it."""

    code = "bad_token"


class Forbidden(Refused):
    """The token is valid, but doesn't permit this request."""

    code = "forbidden"


class BadMark(Refused):
    """Send a mark (read, unread, hidden or none) and 1 to 100 burst ids from the user's own inbox."""

    code = "bad_mark"


class TooManyStreams(Refused):
    """The user has the maximum number of live streams open; close one of them."""

    code = "too_many_streams"


class TooManyRequests(Refused):
    """The rate limit is exceeded; retry after the number of seconds in Retry-After."""

    code = "too_many_requests"


class NotSupported(Refused):
    """This service can't do that yet; nothing was done."""

    code = "not_supported"


class NumberTaken(Refused):
    """The user has another member number, or the number belongs to another user."""

    code = "number_taken"


class BadPreference(Refused):
    """The preference is invalid."""

    code = "bad_preference"


class BadImport(Refused):
    """The file can't be imported."""

    code = "bad_import"


class BadThrottle(Refused):
    """A throttle needs a tier, a rate or a pause, a reason, and an end."""

    code = "bad_throttle"


class BadReach(Refused):
    """To limit an author's reach, give a verdict and a reason."""

    code = "bad_reach"


class BadDevice(Refused):
    """The device registration is invalid."""

    code = "bad_device"


class ForeignDevice(BadDevice):
    """This service sends no alerts to devices of that app or push service."""

    code = "foreign_device"
