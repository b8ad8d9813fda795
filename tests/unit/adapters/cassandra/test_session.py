"""A session to Cassandra where there is none."""

import pytest

from notifier.adapters.cassandra import CassandraAccess, Cluster
from notifier.devkit.engines.engine import free_port
from notifier.domain.errors import BadSetting, StoreUnavailable


def test_a_node_that_isnt_there_is_an_outage() -> None:
    with pytest.raises(StoreUnavailable, match="can't be reached"):
        Cluster(CassandraAccess(hosts=["127.0.0.1"], port=free_port())).session()


def test_a_keyspace_is_a_name_and_nothing_else() -> None:
    with pytest.raises(BadSetting, match="A keyspace"):
        CassandraAccess(hosts=["127.0.0.1"], keyspace="a; DROP KEYSPACE b")


def test_what_proves_who_we_are_is_in_no_log() -> None:
    assert "hush" not in repr(CassandraAccess(hosts=["127.0.0.1"], security={"auth_provider": "hush"}))
