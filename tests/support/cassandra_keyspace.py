"""Fixtures of a Cassandra keyspace per process, emptied before each test."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.cassandra import AsyncQueries, CassandraAccess, Cluster, Phase, migrate
from notifier.adapters.cassandra.schema.migrate import FOLDER
from notifier.devkit.engines.maven import missing_tools
from tests.support.fakes.clock_and_nonces import ManualClock

ON_ENGINES = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing_tools())}"
    ),
]


_TABLES = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"
TIMEOUT_SECONDS = 30.0
"""A node may exceed the driver's timeout of five seconds while other engines start."""
_MIGRATION_PREFIX = "migrations"
"""Prefix of tables of the migration runner."""
_WRITTEN_BY_TEST_CLOCK = {"open_bursts", "deferred_bursts"}
"""Tables written with timestamps of the test's clock, which starts at the same time in all tests.

A tombstone of the last test would win over the next one's writes. If a burst was ever listed, `open_slots` is not
empty.
"""


@contextmanager
def keyspace(access: CassandraAccess) -> Iterator[Cluster]:
    """Open a keyspace with the current schema.

    Its name contains the schema's digest and the worker, so that engines kept from an earlier run can be reused.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    schema = b"".join(path.read_bytes() for path in sorted(FOLDER.rglob("*.cql")))
    digest = hashlib.sha256(schema + os.getcwd().encode()).hexdigest()[:12]
    cluster = Cluster(replace(access, keyspace=f"contracts_{digest}_{worker}"))
    try:
        for phase in Phase:
            migrate(cluster, phase)
        yield cluster
    finally:
        cluster.close()


def patient_queries(cluster: Cluster) -> AsyncQueries:
    """Return queries with a long deadline, because a busy node may be slower than a viewer would accept."""
    return AsyncQueries(cluster, deadline=timedelta(seconds=TIMEOUT_SECONDS))


def truncated(cluster: Cluster) -> Cluster:
    """Truncate all tables that are not empty: a truncation takes about 10 ms, and looking for a row almost nothing."""
    session = cluster.session()
    tables = [
        name
        for (name,) in cluster.execute(_TABLES, (cluster.access.keyspace,))
        if not name.startswith(_MIGRATION_PREFIX)
    ]
    first_rows = {
        table: session.execute_async(f"SELECT * FROM {table} LIMIT 1", timeout=TIMEOUT_SECONDS) for table in tables
    }
    filled = {table for table, first_row in first_rows.items() if list(first_row.result())}
    filled |= _WRITTEN_BY_TEST_CLOCK if "open_slots" in filled else set()
    for truncation in [session.execute_async(f"TRUNCATE {table}", timeout=TIMEOUT_SECONDS) for table in filled]:
        truncation.result()
    return cluster


@pytest.fixture(scope="module")
def shared_cluster(cassandra: CassandraAccess) -> Iterator[Cluster]:
    with keyspace(cassandra) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    return truncated(shared_cluster)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
