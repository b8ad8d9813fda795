"""The driver's errors become ours: what passes by itself, and what doesn't."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import cassandra as vendor
from cassandra import AuthenticationFailed, protocol
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException

from notifier.domain.errors import BadSetting, Environment, NotifierError, StoreUnavailable

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


# Who we are to the nodes, and why none lets us in: what passes, and what won't until somebody mends a setting.

STRANGERS = ("Provided username", "Remote end requires authentication")
"""In the words of a node that doesn't know us, and of the driver that has no name to give. A node that can't read its
users now says something else, and that passes."""
NOT_VOUCHED_FOR = "CERTIFICATE_VERIFY_FAILED"


def security(*, user: str, password: str, ca: str) -> Mapping[str, Any]:
    """Of an access: who we are, and TLS with whatever names that authority vouches for. Raises BadSetting."""
    found: dict[str, Any] = {}
    if user:
        found["auth_provider"] = PlainTextAuthProvider(user, password)
    if ca:
        try:
            found["ssl_context"] = ssl.create_default_context(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            raise BadSetting(f"The certificate of Cassandra's authority, {ca}, can't be read: {error}") from error
    return found


def refusal(error: NoHostAvailable) -> NotifierError:
    """Environment for a wrong password and for a certificate that isn't the authority's, else StoreUnavailable."""
    causes = error.errors if isinstance(error.errors, dict) else {}
    for node, cause in causes.items():
        if isinstance(cause, AuthenticationFailed) and any(words in str(cause) for words in STRANGERS):
            return Environment(f"Cassandra at {node} refuses the user or the password.")
        if NOT_VOUCHED_FOR in str(cause):
            return Environment(f"Cassandra at {node} shows a certificate that isn't our authority's.")
    if not causes:
        return StoreUnavailable("It has no node in our datacenter, which NOTIFIER_CASSANDRA_DATACENTER names.")
    kinds = ", ".join(sorted({type(cause).__name__ for cause in causes.values()}))
    nobody_there = all(isinstance(cause, ConnectionRefusedError) for cause in causes.values())
    hint = "" if nobody_there else " Perhaps TLS is spoken on one side alone."
    return StoreUnavailable(f"It can't be reached: {kinds}.{hint}")
