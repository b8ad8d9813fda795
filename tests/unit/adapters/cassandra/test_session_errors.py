"""Cassandra sessions: unreachable nodes, invalid keyspaces and secrets in logs."""

import pytest
from cassandra import AuthenticationFailed
from cassandra.cluster import NoHostAvailable

from notifier.adapters.cassandra import CassandraAccess, Cluster
from notifier.adapters.cassandra.driver.error_translation import classify_connection_error
from notifier.devkit.engines.engine_process import free_port
from notifier.domain.errors import BadSetting, NotifierError, StoreUnavailable, UnusableEnvironment


def test_unreachable_node_is_reported_as_outage() -> None:
    with pytest.raises(StoreUnavailable, match="Can't connect"):
        Cluster(CassandraAccess(hosts=["127.0.0.1"], port=free_port())).session()


def test_invalid_keyspace_name_is_rejected() -> None:
    with pytest.raises(BadSetting, match="Invalid keyspace name"):
        CassandraAccess(hosts=["127.0.0.1"], keyspace="a; DROP KEYSPACE b")


def test_repr_of_access_contains_no_credentials() -> None:
    assert "hush" not in repr(CassandraAccess(hosts=["127.0.0.1"], security_options={"auth_provider": "hush"}))


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "Remote end requires authentication",
            UnusableEnvironment,
            "Cassandra at n1 requires credentials; set NOTIFIER_CASSANDRA_USER and NOTIFIER_CASSANDRA_PASSWORD.",
        ),
        (
            "Failed to authenticate to n1: Provided username x and/or password are incorrect",
            UnusableEnvironment,
            "Cassandra at n1 rejects the user or the password.",
        ),
        ("Failed to authenticate to n1: Unable to perform authentication", StoreUnavailable, "AuthenticationFailed"),
    ],
)
def test_failed_authentication_is_reported_with_its_cause(text: str, kind: type[NotifierError], message: str) -> None:
    error = classify_connection_error(NoHostAvailable("", {"n1": AuthenticationFailed(text)}))
    assert (type(error), message in str(error)) == (kind, True)
