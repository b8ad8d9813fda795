"""`disk_full`: Cassandra's files cannot grow during a storm. Afterwards they can, and the node restarts."""

import resource
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from benchmarks.chaos.scenario_stage import Stage
from notifier.adapters.cassandra import Cluster
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.domain.errors import StoreUnavailable
from notifier.profiles.cluster_connection_parameters import cassandra_access

NAME = "disk_full"
MENTIONS, STORM_SECONDS = 40, 16.0
FULL_SECONDS = 6.0
CHUNK, CHUNKS = 64 * 1024, 2_000
"""Bytes and number of rows that fill the preallocated commit log files, which have 32 MiB each."""


def run(stage: Stage, *, quick: bool) -> Finding:
    with stage.storming(MENTIONS, STORM_SECONDS) as storm:
        time.sleep(STORM_SECONDS / 8)
        with _full(stage):
            wrong = [] if _fill(stage) else ["every write succeeded: the disk was never full"]
            time.sleep(FULL_SECONDS)
        stage.engines.kill("cassandra")
    if storm.sent.retry_count:
        wrong.append(f"the tweet service retried {storm.sent.retry_count} requests")
    return no_errors(NAME, wrong + stage.wrong(), n=MENTIONS)


@contextmanager
def _full(stage: Stage) -> Iterator[None]:
    """Make the disk look full to the process: open files can be read, and no file can grow."""
    pid = stage.engines.fleet.records()["cassandra"].pid
    assert pid is not None
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def _fill(stage: Stage) -> bool:
    """Write until a write fails. Return whether one did."""
    access = replace(cassandra_access(stage.settings), keyspace="filler")
    with closing(Cluster(access)) as cluster:
        try:
            cluster.create_keyspace()
            cluster.change_schema("CREATE TABLE IF NOT EXISTS filler (id int PRIMARY KEY, piece blob)")
            rows = ((number, bytes(CHUNK)) for number in range(CHUNKS))
            cluster.query_each("INSERT INTO filler (id, piece) VALUES (?, ?)", rows)
        except StoreUnavailable:
            return True
    return False
