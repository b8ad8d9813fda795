"""The driver's errors become ours: what passes by itself, and what doesn't."""

from collections.abc import Iterator
from contextlib import contextmanager

import cassandra as vendor
from cassandra import protocol
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException

from notifier.domain.errors import StoreUnavailable

_PASSING = (
    vendor.RequestExecutionException,
    vendor.OperationTimedOut,
    vendor.UnresolvableContactPoints,
    NoHostAvailable,
    ConnectionException,
    ConnectionBusy,
    protocol.RequestExecutionException,  # Overloaded and bootstrapping have no class of their own outside
    protocol.ServerError,
    vendor.Unauthorized,  # also who may do it, while the node can't read that
)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """What passes is an outage to us; a mistake of the program's (a wrong statement) stays what it is."""
    try:
        yield
    except _PASSING as error:
        raise StoreUnavailable(f"{what}: {type(error).__name__}.") from error
