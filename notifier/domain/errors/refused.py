"""What the caller did wrong, and can mend: HTTP 4xx, exit code 2."""

from notifier.domain.errors.root import NotifierError


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
    """What is wanted can't be said so."""

    code = "bad_preference"


class BadImport(Refused):
    """The file can't be imported."""

    code = "bad_import"


class BadThrottle(Refused):
    """A throttle needs a tier, a rate or a pause, a reason, and when it ends."""

    code = "bad_throttle"


class BadReach(Refused):
    """How far an account's mentions may carry is said with a verdict and a reason."""

    code = "bad_reach"


class BadDevice(Refused):
    """The device can't be registered so."""

    code = "bad_device"


class ForeignDevice(BadDevice):
    """No alert is sent to devices of that app, or of that push service, from here."""

    code = "foreign_device"
