"""Why no node lets us in: what passes, and what won't until somebody mends a setting."""

from cassandra import AuthenticationFailed
from cassandra.cluster import NoHostAvailable

from notifier.domain.errors import Environment, NotifierError, StoreUnavailable

STRANGERS = ("Provided username", "Remote end requires authentication")
"""In the words of a node that doesn't know us, and of the driver that has no name to give. A node that can't read its
users now says something else, and that passes."""
NOT_VOUCHED_FOR = "CERTIFICATE_VERIFY_FAILED"


def refusal(error: NoHostAvailable) -> NotifierError:
    """Environment for a wrong password and for a certificate that isn't the authority's, else StoreUnavailable."""
    causes = error.errors if isinstance(error.errors, dict) else {}
    for node, cause in causes.items():
        if isinstance(cause, AuthenticationFailed) and any(words in str(cause) for words in STRANGERS):
            return Environment(f"Cassandra at {node} refuses the user or the password.")
        if NOT_VOUCHED_FOR in str(cause):
            return Environment(f"Cassandra at {node} shows a certificate that isn't our authority's.")
    kinds = ", ".join(sorted({type(cause).__name__ for cause in causes.values()})) or "NoHostAvailable"
    return StoreUnavailable(f"It can't be reached: {kinds}. Perhaps TLS is spoken on one side alone.")
