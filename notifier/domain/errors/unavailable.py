"""What doesn't answer now, and may soon: HTTP 503."""

from notifier.domain.errors.root import NotifierError


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
