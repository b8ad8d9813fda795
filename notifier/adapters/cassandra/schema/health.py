"""Read-only health snapshot of the Cassandra nodes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from notifier.adapters.cassandra.driver.session import CassandraAccess, Cluster
from notifier.adapters.cassandra.schema.migrate import READ, MigrationEntry, entry_of
from notifier.domain.errors import StoreUnavailable

ANSWERS_WITHIN = timedelta(seconds=1.5)
"""Timeout per node. The caller waits for all nodes, and one may hang."""
_LOCAL = "SELECT release_version, toUnixTimestamp(now()) AS ms FROM system.local"
_SETTINGS = "SELECT name, value FROM system_views.settings"
_REPLICATION = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s"
_TABLES = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    address: str
    datacenter: str
    version: str = ""
    """Empty if the node doesn't answer."""
    clock_lead: float = 0.0
    """Lead of its clock over ours in seconds, less what the latency of the answer may account for."""
    settings: Mapping[str, str]

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
    """Query all nodes. Raises StoreUnavailable, and Environment if the nodes reject our credentials."""
    cluster = Cluster(replace(access, keyspace="system", answers_within=ANSWERS_WITHIN))
    try:
        hosts = cluster.session().cluster.metadata.all_hosts()
        rows = cluster.execute(_REPLICATION, (access.keyspace,))
        return CassandraStatus(
            nodes=[_node(cluster, host) for host in hosts],
            replication=dict(rows[0].replication) if rows else None,
            migrations=_entries(cluster, access.keyspace),
        )
    finally:
        cluster.close()


def _entries(cluster: Cluster, keyspace: str) -> Sequence[MigrationEntry] | None:
    """Read the register at a quorum. A decision in progress may be missing, and nothing waits for it."""
    try:
        tables = {table for (table,) in cluster.execute(_TABLES, (keyspace,))}
        if "migrations" not in tables:
            return []
        rows = cluster.execute(READ.replace("FROM ", f"FROM {keyspace}."))
        return [entry_of(row) for row in rows if row.phase is not None]
    except StoreUnavailable:
        return None


def _node(cluster: Cluster, host: Any) -> NodeStatus:
    known: dict[str, Any] = {"address": str(host.address), "datacenter": str(host.datacenter)}
    try:
        version, lead = min(_clock_readings(cluster, host), key=lambda probe: abs(probe[1]))
        rows = cluster.execute_on(host, _SETTINGS)
    except StoreUnavailable:
        return NodeStatus(**known, settings={})
    return NodeStatus(
        **known, version=version, clock_lead=lead, settings={row.name: row.value for row in rows if row.value}
    )


def _clock_readings(cluster: Cluster, host: Any) -> Iterator[tuple[str, float]]:
    """Query the node twice: the first answer may have waited for a connection."""
    for _ in range(2):
        before = time.time()
        [row] = cluster.execute_on(host, _LOCAL)
        yield row.release_version, clock_lead_of(row.ms / 1_000, before, time.time())


def clock_lead_of(theirs: float, before: float, after: float) -> float:
    """Return by how much their clock is at least ahead of ours. They read it between our two readings."""
    return theirs - min(max(theirs, before), after)
