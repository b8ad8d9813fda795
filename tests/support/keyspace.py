"""A keyspace for the contracts: made once a process, and empty at the beginning of each test."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from notifier.adapters.cassandra import CassandraAccess, CassandraReader, Cluster, Phase, migrate
from notifier.adapters.cassandra.schema.migrate import FOLDER

_TABLES = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"
WITHIN = 30.0
"""Seconds: while other engines start, a node may be late for the driver's five."""
_KEPT = "migrations"
"""The runner's own."""
_AS_DECIDED = {"open_bursts", "sleepers"}
"""Written as of a test's clock, and all tests begin at one moment: tombstones of the last one would win over the next.
Wherever a burst was listed, `open_slots` holds something."""


@contextmanager
def keyspace(access: CassandraAccess) -> Iterator[Cluster]:
    """With the schema of the code. Named by the schema and by who tests it, so that kept engines serve again."""
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


def patient_reader(cluster: Cluster) -> CassandraReader:
    """Return a reader for tests of what is read: a busy node may need longer than a viewer of an inbox would wait."""
    return CassandraReader(cluster, deadline=timedelta(seconds=WITHIN))


def emptied(cluster: Cluster) -> Cluster:
    """A truncation costs some ten milliseconds and an empty table nothing: those that hold something are truncated."""
    session = cluster.session()
    tables = [name for (name,) in cluster.execute(_TABLES, (cluster.access.keyspace,)) if not name.startswith(_KEPT)]
    looks = {table: session.execute_async(f"SELECT * FROM {table} LIMIT 1", timeout=WITHIN) for table in tables}
    filled = {table for table, look in looks.items() if list(look.result())}
    filled |= _AS_DECIDED if "open_slots" in filled else set()
    for going in [session.execute_async(f"TRUNCATE {table}", timeout=WITHIN) for table in filled]:
        going.result()
    return cluster
