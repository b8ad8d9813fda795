"""Reads the state of all Cassandra nodes."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from notifier.adapters.cassandra.driver.session import CassandraAccess, Cluster
from notifier.adapters.cassandra.schema.migrate import SELECT_ENTRIES, MigrationEntry, entry_of
from notifier.domain.errors import StoreUnavailable

QUERY_TIMEOUT = timedelta(seconds=1.5)
"""Timeout of each query. It is short, because the nodes are queried one after another, and any of them may hang."""
_SELECT_VERSION_AND_TIME = "SELECT release_version, toUnixTimestamp(now()) AS ms FROM system.local"
_SELECT_SETTINGS = "SELECT name, value FROM system_views.settings"
_SELECT_REPLICATION = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s"
_SELECT_TABLES = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    address: str
    datacenter: str
    version: str = ""
    """Empty if a query to the node failed."""
    clock_lead: float = 0.0
    """Seconds that the node's clock is at least ahead (negative: behind); 0 if the round trip explains the lead."""
    settings: Mapping[str, str]
    """Settings that have a value, by name. Empty if a query to the node failed."""

    @property
    def is_up(self) -> bool:
        return self.version != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraStatus:
    nodes: Sequence[NodeStatus]
    replication: Mapping[str, str] | None
    """Replication of our keyspace, or None if there is no such keyspace."""
    migrations: Sequence[MigrationEntry] | None
    """Entries of the migration register, or None if it cannot be read."""


def cassandra_status(access: CassandraAccess) -> CassandraStatus:
    """Query all nodes. Raises as `Cluster.session` does."""
    cluster = Cluster(replace(access, keyspace="system", response_timeout=QUERY_TIMEOUT))
    try:
        hosts = cluster.session().cluster.metadata.all_hosts()
        rows = cluster.execute(_SELECT_REPLICATION, (access.keyspace,))
        return CassandraStatus(
            nodes=[_node_status(cluster, host) for host in hosts],
            replication=dict(rows[0].replication) if rows else None,
            migrations=_migration_entries(cluster, access.keyspace),
        )
    finally:
        cluster.close()


def _migration_entries(cluster: Cluster, keyspace: str) -> Sequence[MigrationEntry] | None:
    """Read the migration register at a quorum, which may miss an entry that is being written.

    Return an empty list if the keyspace has no register, and None if the register can't be read.
    """
    try:
        tables = {table for (table,) in cluster.execute(_SELECT_TABLES, (keyspace,))}
        if "migrations" not in tables:
            return []
        rows = cluster.execute(SELECT_ENTRIES.replace("FROM ", f"FROM {keyspace}."))
        return [entry_of(row) for row in rows if row.phase is not None]
    except StoreUnavailable:
        return None


def _node_status(cluster: Cluster, host: Any) -> NodeStatus:
    identity: dict[str, Any] = {"address": str(host.address), "datacenter": str(host.datacenter)}
    try:
        version, lead = most_exact_reading(_clock_readings(cluster, host))
        rows = cluster.execute_on(host, _SELECT_SETTINGS)
    except StoreUnavailable:
        return NodeStatus(**identity, settings={})
    return NodeStatus(
        **identity, version=version, clock_lead=lead, settings={row.name: row.value for row in rows if row.value}
    )


def most_exact_reading(readings: Iterable[tuple[str, float]]) -> tuple[str, float]:
    """Return the reading with the largest clock difference: each is a lower limit, so the largest is the most exact."""
    return max(readings, key=lambda reading: abs(reading[1]))


def _clock_readings(cluster: Cluster, host: Any) -> Iterator[tuple[str, float]]:
    """Yield two readings of the node's version and clock lead."""
    for _ in range(2):
        before = time.time()
        [row] = cluster.execute_on(host, _SELECT_VERSION_AND_TIME)
        yield row.release_version, clock_lead_of(row.ms / 1_000, before, time.time())


def clock_lead_of(their_time: float, before: float, after: float) -> float:
    """Return how many seconds a node's clock is at least ahead of ours; negative if it is behind.

    The node read `their_time` between our clock's readings `before` and `after`. If it lies between them, return 0.
    """
    return their_time - min(max(their_time, before), after)
