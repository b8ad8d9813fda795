"""`disk_full`: no file of Cassandra may grow any more, in a storm; then there is room, and it is started anew."""

import resource
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from benchmarks.chaos.stage import Stage
from notifier.adapters.cassandra import Cluster
from notifier.devkit.check.finding import Finding, agreement
from notifier.domain.errors import StoreUnavailable
from notifier.profiles.cluster_connections import cassandra_access

NAME = "disk_full"
MENTIONS, LASTING = 40, 16.0
FULL_FOR = 6.0
"""Seconds."""
CHUNK, CHUNKS = 64 * 1024, 2_000
"""Of another tenant's data, which fills what is left: the files of a commit log are of 32 MiB, made beforehand."""


def run(stage: Stage, *, quick: bool) -> Finding:
    with stage.storming(MENTIONS, LASTING) as storm:
        time.sleep(LASTING / 8)
        with _full(stage):
            wrong = [] if _fill(stage) else ["it took everything: the disk was never full"]
            time.sleep(FULL_FOR)
        stage.engines.kill("cassandra")
    if storm.sent.retries:
        wrong.append(f"{storm.sent.retries} requests of the tweet service had to be sent again")
    return agreement(NAME, wrong + stage.wrong(), n=MENTIONS)


@contextmanager
def _full(stage: Stage) -> Iterator[None]:
    """To the process as a full disk is: what is opened can be read, and nothing is taken."""
    pid = stage.engines.fleet.records()["cassandra"].pid
    assert pid is not None
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def _fill(stage: Stage) -> bool:
    """Whether it was refused in the end."""
    access = replace(cassandra_access(stage.settings), keyspace="filler")
    with closing(Cluster(access)) as cluster:
        try:
            cluster.create()
            cluster.change_schema("CREATE TABLE IF NOT EXISTS filler (id int PRIMARY KEY, piece blob)")
            rows = ((number, bytes(CHUNK)) for number in range(CHUNKS))
            cluster.query_each("INSERT INTO filler (id, piece) VALUES (?, ?)", rows)
        except StoreUnavailable:
            return True
    return False
