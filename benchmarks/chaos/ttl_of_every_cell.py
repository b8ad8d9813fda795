"""`ttl_never_null`: after a storm every cell of every table with a default TTL has one."""

from collections.abc import Iterator
from contextlib import closing

from benchmarks.chaos.scenario_stage import Stage
from notifier.adapters.cassandra import Cluster
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.profiles.cluster_connection_parameters import cassandra_access

NAME = "ttl_never_null"
_TABLES = "SELECT table_name, default_time_to_live FROM system_schema.tables WHERE keyspace_name = %s"
_COLUMNS = "SELECT column_name, kind FROM system_schema.columns WHERE keyspace_name = %s AND table_name = %s"
REGULAR = ("regular", "static")


def run(stage: Stage, *, quick: bool) -> Finding:
    stage.send(20)
    wrong, looked = stage.wrong(), 0
    with closing(Cluster(cassandra_access(stage.settings))) as cluster:
        for table, columns in _ending(cluster):
            for column in columns:
                cells = cluster.execute(f"SELECT {column}, TTL({column}) FROM {table}")
                filled = [life for value, life in cells if value is not None]
                looked += len(filled)
                if lasting := sum(life is None for life in filled):
                    wrong.append(f"{table}.{column}: {lasting} of {len(filled)} cells have no TTL")
    return no_errors(NAME, wrong, n=looked)


def _ending(cluster: Cluster) -> Iterator[tuple[str, list[str]]]:
    keyspace = cluster.access.keyspace
    for table, life in cluster.execute(_TABLES, (keyspace,)):
        if life:
            yield table, [name for name, kind in cluster.execute(_COLUMNS, (keyspace, table)) if kind in REGULAR]
