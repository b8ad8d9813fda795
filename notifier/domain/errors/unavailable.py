"""Errors of dependencies that are temporarily unavailable (HTTP 503)."""

from notifier.domain.errors.root_and_uncategorized_errors import NotifierError


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
    """This process can't open another live stream, or is shutting down; poll, and try again later."""

    code = "streams_full"


class IssuerUnavailable(Unavailable):
    """The token issuer's keys can't be fetched right now, so no token can be verified."""

    code = "issuer_unavailable"


class NoAnswer(Unavailable):
    """No service answers at this address; `notifier up` starts one."""

    code = "no_answer"
