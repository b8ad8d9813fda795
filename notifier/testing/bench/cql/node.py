"""A Cassandra node of the bench's own: in its folder, with our schema, watched from /proc, gone with the block."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from notifier.adapters.cassandra import Access, Cluster, Phase, migrate
from notifier.config import Settings
from notifier.testing.bench.machine import processor_s
from services.cassandra.node import Sync, node
from services.engine import Engine, free_port
from services.watch import watched

LOOKS_EVERY = 0.1
IDLE = 0.1
"""Of one core: a node that flushes, compacts or compiles takes more."""
SETTLES_WITHIN = 20.0


@dataclass(slots=True, kw_only=True)
class Node:
    engine: Engine
    cluster: Cluster

    def processor(self) -> float:
        """Seconds that it computed since it began."""
        assert self.engine.pid is not None, self.engine.last_words()
        return processor_s(self.engine.pid)

    def settle(self) -> None:
        """Returns once it has done what earlier writes left it to do, or never comes to rest."""
        deadline = time.monotonic() + SETTLES_WITHIN
        before, quiet = self.processor(), False
        while not quiet and time.monotonic() < deadline:
            time.sleep(LOOKS_EVERY)
            now = self.processor()
            before, quiet = now, now - before <= IDLE * LOOKS_EVERY

    def again(self) -> None:
        """Stopped and started: what was in its memory is in its files."""
        self.cluster.close()
        self.engine.stop()
        self.engine.start()
        self.engine.ready()


@contextmanager
def noded(folder: Path, sync: Sync = Sync.PERIODIC) -> Iterator[Node]:
    """Raises Environment where there is no Java, or no Maven to get the jars."""
    engine = node(folder.absolute() / "cassandra", Settings.read().jars.expanduser(), port=free_port(), sync=sync)
    cluster = Cluster(Access(hosts=[engine.host], port=engine.port))
    with watched(folder):
        try:
            engine.start()
            engine.ready()
            for phase in Phase:
                migrate(cluster, phase)
            yield Node(engine=engine, cluster=cluster)
        finally:
            cluster.close()
            engine.kill()  # nobody needs what it has stored
