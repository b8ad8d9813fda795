"""Runs the benchmark's own Cassandra node with our schema, and measures it through /proc."""

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process_stats import processor_s
from notifier.adapters.cassandra import CassandraAccess, Cluster, Phase, migrate
from notifier.config import Settings
from notifier.devkit.engines.cassandra import Sync, node
from notifier.devkit.engines.engine_process import Engine, free_port
from notifier.devkit.engines.reaper import reaping
from notifier.domain.errors import UnusableEnvironment

POLL_INTERVAL_SECONDS = 0.1
IDLE = 0.1
"""Share of one core. A node that flushes, compacts or compiles uses more."""
SETTLE_TIMEOUT_SECONDS = 20.0


@dataclass(slots=True, kw_only=True)
class BenchNode:
    engine: Engine
    cluster: Cluster

    def processor(self) -> float:
        """Return the node's CPU time in seconds since its start."""
        assert self.engine.pid is not None, self.engine.last_log_lines()
        return processor_s(self.engine.pid)

    def await_idle(self) -> None:
        """Wait until the node has finished the work of earlier writes. Return anyway if it never becomes idle."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_SECONDS
        before, quiet = self.processor(), False
        while not quiet and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_SECONDS)
            now = self.processor()
            before, quiet = now, now - before <= IDLE * POLL_INTERVAL_SECONDS

    def restart(self) -> None:
        """Restart the node, so that the data in its memory is in its files."""
        self.cluster.close()
        self.engine.stop()
        self.engine.start()
        self.engine.wait_until_ready()


@contextmanager
def running_node(folder: Path, sync: Sync = Sync.PERIODIC) -> Iterator[BenchNode]:
    """Start a node and stop it afterwards.

    Raises UnusableEnvironment if Java is missing, or Maven is needed and missing.
    """
    engine = node(folder.absolute() / "cassandra", Settings.read().jars.expanduser(), port=free_port(), sync=sync)
    cluster = Cluster(CassandraAccess(hosts=[engine.host], port=engine.port))
    with reaping(folder):
        try:
            engine.start()
            engine.wait_until_ready()
            for phase in Phase:
                migrate(cluster, phase)
            yield BenchNode(engine=engine, cluster=cluster)
        finally:
            cluster.close()
            engine.kill()  # its data is not needed any more


# Drops an engine's files from memory, as if it stored more than its memory. Needs Linux and the permission to do so.

_PROCESS_MADVISE, _PAGEOUT = 440, 21
"""Linux's number of the system call, and the advice given to it."""


class _Range(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_void_p), ("length", ctypes.c_size_t))


def page_out(engine: Engine) -> None:
    """Page out the tables that the engine has mapped. Raises UnusableEnvironment if that isn't permitted."""
    assert engine.pid is not None, engine.last_log_lines()
    libc, process = ctypes.CDLL(None, use_errno=True), os.pidfd_open(engine.pid)
    try:
        for begin, end in _mapped(engine.pid, engine.folder):
            range_ = _Range(begin, end - begin)
            if libc.syscall(_PROCESS_MADVISE, process, ctypes.byref(range_), 1, _PAGEOUT, 0) < 0:
                error_text = os.strerror(ctypes.get_errno())
                raise UnusableEnvironment(f"cannot page out the memory of {engine.name}: {error_text}")
    finally:
        os.close(process)


def _mapped(pid: int, folder: Path) -> Iterator[tuple[int, int]]:
    with closing(Path(f"/proc/{pid}/maps").open()) as maps:
        for line in maps:
            place, *_, file = line.split(maxsplit=5)
            if f"{folder}/data/" in file:
                begin, end = place.split("-")
                yield int(begin, 16), int(end, 16)
