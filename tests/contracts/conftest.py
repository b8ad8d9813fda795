"""Fixtures of the contract tests: `backend` and `store` run each test on every backend."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from notifier.adapters.cassandra import CassandraAccess, Cluster
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.user_directory_cache import CachedDirectory
from tests.contracts.cassandra_stores import cassandra_store, in_cassandra
from tests.contracts.event_log_backends import Logs, ManualLogs, in_kafka
from tests.contracts.memory_and_sqlite_backends import Backend, in_memory, in_sqlite, migrated
from tests.contracts.memory_and_sqlite_stores import Store, memory_store, sqlite_store
from tests.contracts.valkey_cluster_fixture import valkeys, valkeys_servers
from tests.support.cassandra_keyspace import keyspace, truncated
from tests.support.fakes.clock_and_nonces import ManualClock

__all__ = ["valkeys", "valkeys_servers"]

IN_CASSANDRA = pytest.param("cassandra", marks=pytest.mark.timeout(180))
"""The first test of a run waits until the node listens and has its tables: 30 seconds each on a busy machine."""


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    opened = migrated(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def sqlite(files: Files) -> Backend:
    return in_sqlite(files, ManualClock())


@pytest.fixture(scope="session")
def shared_cluster(cassandra: CassandraAccess) -> Iterator[Cluster]:
    with keyspace(cassandra) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """Return a keyspace with empty tables."""
    return truncated(shared_cluster)


@pytest.fixture(params=["memory", "remembered", "sqlite", IN_CASSANDRA])
def backend(request: pytest.FixtureRequest) -> Backend:
    instance: Backend
    match request.param:
        case "memory":
            instance = in_memory()
        case "remembered":
            instance = in_memory()
            instance = replace(instance, directory=CachedDirectory(instance.directory, capacity=2))
        case "sqlite":
            instance = request.getfixturevalue("sqlite")
        case _:
            instance = in_cassandra(request.getfixturevalue("cluster"), ManualClock())
    return instance


@pytest.fixture(params=["memory", "sqlite", "kafka"])
def logs(request: pytest.FixtureRequest) -> Iterator[Logs]:
    if request.param == "kafka":
        with in_kafka(request.getfixturevalue("kafka")) as kafka_logs:
            yield kafka_logs
    else:
        backend: Backend = in_memory() if request.param == "memory" else request.getfixturevalue("sqlite")
        yield ManualLogs(backend.log, backend.clock)


@pytest.fixture(params=["memory", "sqlite", IN_CASSANDRA])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Yield the stores that the core flow and the readers use."""
    match request.param:
        case "memory":
            opening = memory_store(tmp_path, ManualClock())
        case "sqlite":
            opening = sqlite_store(tmp_path, ManualClock())
        case _:
            opening = cassandra_store(request.getfixturevalue("cluster"), ManualClock())
    with opening as opened:
        yield opened
