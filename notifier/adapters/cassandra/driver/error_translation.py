"""Translates driver errors to StoreUnavailable or UnusableEnvironment."""

from collections.abc import Iterator
from contextlib import contextmanager

import cassandra as vendor
from cassandra import AuthenticationFailed, protocol
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException

from notifier.domain.errors import NotifierError, StoreUnavailable, UnusableEnvironment

_TRANSIENT_ERRORS = (
    vendor.RequestExecutionException,
    vendor.OperationTimedOut,
    vendor.UnresolvableContactPoints,
    NoHostAvailable,
    ConnectionException,
    ConnectionBusy,
    protocol.RequestExecutionException,  # the driver exports no class for overloaded and bootstrapping nodes
    protocol.ServerError,
    vendor.Unauthorized,  # also raised while the node cannot read the permissions of an authorized user
)


@contextmanager
def translate_errors(failure: str) -> Iterator[None]:
    """Raise StoreUnavailable for transient driver errors. Other errors pass unchanged."""
    try:
        yield
    except _TRANSIENT_ERRORS as error:
        raise StoreUnavailable(f"{failure}: {type(error).__name__}.") from error


# Some connection errors are transient. Others last until an operator acts.

_CREDENTIALS_REJECTED = "Provided username"
"""Phrase in the error of a node that rejects our user.

A node that can't read its user table at the moment sends a different text, and that error is transient.
"""
_CREDENTIALS_MISSING = "Remote end requires authentication"
"""Phrase in the driver's error if a node requires credentials and none are configured."""
_CERTIFICATE_REJECTED = "CERTIFICATE_VERIFY_FAILED"
"""Phrase in the error if this process rejects a node's certificate."""


def classify_connection_error(error: NoHostAvailable) -> NotifierError:
    """Return UnusableEnvironment for wrong or missing credentials or a rejected certificate, else StoreUnavailable."""
    causes = error.errors if isinstance(error.errors, dict) else {}
    for node, cause in causes.items():
        if isinstance(cause, AuthenticationFailed) and _CREDENTIALS_REJECTED in str(cause):
            return UnusableEnvironment(f"Cassandra at {node} rejects the user or the password.")
        if isinstance(cause, AuthenticationFailed) and _CREDENTIALS_MISSING in str(cause):
            return UnusableEnvironment(
                f"Cassandra at {node} requires credentials; set NOTIFIER_CASSANDRA_USER and "
                "NOTIFIER_CASSANDRA_PASSWORD."
            )
        if _CERTIFICATE_REJECTED in str(cause):
            return UnusableEnvironment(f"The certificate of Cassandra at {node} was rejected: {cause}.")
    if not causes:  # the driver gives no causes if it could open no connection pool
        return StoreUnavailable(
            "Can't open a connection to any Cassandra node in the datacenter that NOTIFIER_CASSANDRA_DATACENTER names; "
            "check the name."
        )
    kinds = ", ".join(sorted({type(cause).__name__ for cause in causes.values()}))
    all_refused = all(isinstance(cause, ConnectionRefusedError) for cause in causes.values())
    hint = "" if all_refused else " Check whether only one side uses TLS."
    return StoreUnavailable(f"Can't connect to Cassandra: {kinds}.{hint}")
