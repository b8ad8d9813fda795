"""A Cassandra keyspace with the schema, and a migrated log, for these tests."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from notifier.adapters.cassandra import (
    CassandraAccess,
    Cluster,
)
from notifier.adapters.kafka import Access, migrate
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


@pytest.fixture
def access(kafka: str) -> Access:
    """Access to a log with its topics."""
    access = Access(servers=kafka, prefix=f"t{uuid4().hex[:8]}.")
    migrate(access)
    return access
