"""A Cassandra keyspace with the schema, for tests beyond the shared contracts."""

from collections.abc import Iterator

import pytest

from notifier.adapters.cassandra import (
    CassandraAccess,
    Cluster,
)
from tests.support.cassandra_keyspace import keyspace, truncated


@pytest.fixture(scope="module")
def shared_cluster(cassandra: CassandraAccess) -> Iterator[Cluster]:
    with keyspace(cassandra) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with its own session, on which no encoders are registered."""
    truncated(shared_cluster)
    session = Cluster(shared_cluster.access)
    yield session
    session.close()
