"""Cassandra sessions: unreachable nodes, invalid keyspaces and secrets in logs."""

import pytest

from notifier.adapters.cassandra import CassandraAccess, Cluster
from notifier.devkit.engines.engine_process import free_port
from notifier.domain.errors import BadSetting, StoreUnavailable


def test_unreachable_node_is_reported_as_outage() -> None:
    with pytest.raises(StoreUnavailable, match="Can't connect"):
        Cluster(CassandraAccess(hosts=["127.0.0.1"], port=free_port())).session()


def test_invalid_keyspace_name_is_rejected() -> None:
    with pytest.raises(BadSetting, match="Invalid keyspace name"):
        CassandraAccess(hosts=["127.0.0.1"], keyspace="a; DROP KEYSPACE b")


def test_repr_of_access_contains_no_credentials() -> None:
    assert "hush" not in repr(CassandraAccess(hosts=["127.0.0.1"], security_options={"auth_provider": "hush"}))
