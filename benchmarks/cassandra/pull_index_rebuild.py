"""Measures the rebuild of the pull index from Cassandra, as fanout does on SQLite."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.cassandra.measured_node import running_node
from benchmarks.costs_and_figures import Figure
from benchmarks.fanout.pull_index_rebuild import measured
from notifier.adapters.cassandra import CassandraBursts, CassandraRecentBursts
from notifier.adapters.clock_and_nonces import SystemClock

NAME = "redis_rebuild_s{cassandra}"


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    clock = SystemClock()
    with running_node(folder) as node:
        bursts, recent = CassandraBursts(node.cluster, clock), CassandraRecentBursts(node.cluster, clock)
        return [measured(NAME, bursts, recent, folder, quick=quick, tell=tell)]
