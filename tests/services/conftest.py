"""A keyspace with the schema, for the tests of what the contracts can't see."""

from collections.abc import Iterator

import pytest

from notifier.adapters.cassandra import (
    CassandraAccess,
    Cluster,
)
from tests.support.keyspace import emptied, keyspace


@pytest.fixture(scope="module")
def kept(cassandra: CassandraAccess) -> Iterator[Cluster]:
    with keyspace(cassandra) as cluster:
        yield cluster


@pytest.fixture
def cluster(kept: Cluster) -> Iterator[Cluster]:
    """With a session of its own, which nobody has told how to encode."""
    emptied(kept)
    own = Cluster(kept.access)
    yield own
    own.close()
