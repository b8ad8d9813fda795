"""A Cassandra node of the bench's own: in its folder, with our schema, watched from /proc, gone with the block."""

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
from notifier.devkit.engines.engine import Engine, free_port
from notifier.devkit.engines.reaper import watched
from notifier.domain.errors import Environment

LOOKS_EVERY = 0.1
IDLE = 0.1
"""Of one core: a node that flushes, compacts or compiles takes more."""
SETTLES_WITHIN = 20.0


@dataclass(slots=True, kw_only=True)
class BenchNode:
    engine: Engine
    cluster: Cluster

    def processor(self) -> float:
        """Seconds that it computed since it began."""
        assert self.engine.pid is not None, self.engine.last_log_lines()
        return processor_s(self.engine.pid)

    def await_idle(self) -> None:
        """Returns once it has done what earlier writes left it to do, or never comes to rest."""
        deadline = time.monotonic() + SETTLES_WITHIN
        before, quiet = self.processor(), False
        while not quiet and time.monotonic() < deadline:
            time.sleep(LOOKS_EVERY)
            now = self.processor()
            before, quiet = now, now - before <= IDLE * LOOKS_EVERY

    def restart(self) -> None:
        """Stopped and started: what was in its memory is in its files."""
        self.cluster.close()
        self.engine.stop()
        self.engine.start()
        self.engine.ready()


@contextmanager
def running_node(folder: Path, sync: Sync = Sync.PERIODIC) -> Iterator[BenchNode]:
    """Raises Environment where there is no Java, or no Maven to get the jars."""
    engine = node(folder.absolute() / "cassandra", Settings.read().jars.expanduser(), port=free_port(), sync=sync)
    cluster = Cluster(CassandraAccess(hosts=[engine.host], port=engine.port))
    with watched(folder):
        try:
            engine.start()
            engine.ready()
            for phase in Phase:
                migrate(cluster, phase)
            yield BenchNode(engine=engine, cluster=cluster)
        finally:
            cluster.close()
            engine.kill()  # nobody needs what it has stored


# Takes an engine's files out of memory, as if it had less than it stores. Linux, and who may do so.

_PROCESS_MADVISE, _PAGEOUT = 440, 21
"""Linux's number of the call, and what is asked for."""


class _Range(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_void_p), ("length", ctypes.c_size_t))


def page_out(engine: Engine) -> None:
    """What the engine has mapped of its tables. Raises Environment where that isn't allowed."""
    assert engine.pid is not None, engine.last_log_lines()
    libc, process = ctypes.CDLL(None, use_errno=True), os.pidfd_open(engine.pid)
    try:
        for begin, end in _mapped(engine.pid, engine.folder):
            range_ = _Range(begin, end - begin)
            if libc.syscall(_PROCESS_MADVISE, process, ctypes.byref(range_), 1, _PAGEOUT, 0) < 0:
                error_text = os.strerror(ctypes.get_errno())
                raise Environment(f"Pages of {engine.name} can't be taken out of memory: {error_text}.")
    finally:
        os.close(process)


def _mapped(pid: int, folder: Path) -> Iterator[tuple[int, int]]:
    with closing(Path(f"/proc/{pid}/maps").open()) as maps:
        for line in maps:
            place, *_, file = line.split(maxsplit=5)
            if f"{folder}/data/" in file:
                begin, end = place.split("-")
                yield int(begin, 16), int(end, 16)
