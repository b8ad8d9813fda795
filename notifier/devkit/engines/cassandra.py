"""Cassandra nodes as engines: writes their settings and assigns their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from notifier.devkit.engines.engine_process import SCRATCH_FOLDER, Engine, Security, free_port
from notifier.devkit.engines.maven import jars

CONFIG_FOLDER = Path(__file__).parent / "config" / "cassandra"
TOKEN_COUNT = 1 << 64
"""Number of tokens of the ring. The tokens are -2^63 to 2^63 - 1."""

SECURITY_SETTINGS = """
# Access needs a password. The initial user, cassandra with the password cassandra, creates the others.
authenticator: PasswordAuthenticator
client_encryption_options:
  enabled: true
  optional: false
  ssl_context_factory:
    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory
  keystore: {certificate}
  truststore: {ca}
"""


class Sync(StrEnum):
    """Commit log mode: when a write is acknowledged.

    The values are the text after `commitlog_sync: ` in cassandra.yaml, with further lines.
    """

    BATCH = "batch\ncommitlog_disk_access_mode: auto\nconcurrent_writes: 512\nnative_transport_max_threads: 64"
    """Acknowledge a write after its fsync, so that it survives a SIGKILL. Writes that arrive during an fsync share the
    next one.

    Each write blocks a thread until its fsync, so the number of threads limits the rate: 32 threads reach 3,200 writes
    per second, and 512 reach 20,000. `auto` uses direct I/O if the file system supports it. The page faults of a
    memory-mapped commit log after each fsync would take a third of the time of writing a row.
    """
    PERIODIC = "periodic\ncommitlog_sync_period: 10000ms\nconcurrent_writes: 32"
    """Acknowledge a write before its fsync. This is usual with three replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraMemory:
    heap: str
    memtables: str


SINGLE_NODE_MEMORY = CassandraMemory(heap="2g", memtables="800MiB")
THREE_NODE_MEMORY = CassandraMemory(heap="640m", memtables="160MiB")
"""Memory of each node if one machine has several nodes. The heap also holds hints and streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeLocation:
    host: str
    token: int
    folder: Path
    memory: CassandraMemory


def node(folder: Path, cache: Path, *, port: int, sync: Sync = Sync.BATCH, security: Security | None = None) -> Engine:
    """Return a single node that owns the whole ring. Raises UnusableEnvironment if its jars are unavailable."""
    location = _NodeLocation(host="127.0.0.1", token=0, folder=folder, memory=SINGLE_NODE_MEMORY)
    return _ring([location], cache, port, sync, security=security)[0]


def nodes(folder: Path, cache: Path, count: int, *, port: int, sync: Sync = Sync.BATCH) -> list[Engine]:
    """Return nodes at 127.0.0.1, 127.0.0.2 and so on, with equal parts of the ring and the same port."""
    locations = [
        _NodeLocation(
            host=f"127.0.0.{k + 1}",
            token=TOKEN_COUNT * k // count - TOKEN_COUNT // 2,
            folder=folder / str(k + 1),
            memory=THREE_NODE_MEMORY,
        )
        for k in range(count)
    ]
    return _ring(locations, cache, port, sync)


def _ring(
    locations: Sequence[_NodeLocation], cache: Path, port: int, sync: Sync, *, security: Security | None = None
) -> list[Engine]:
    lib, storage_port = jars(CONFIG_FOLDER / "pom.xml", cache), free_port()
    engines = []
    for number, location in enumerate(locations, 1):
        (location.folder / "triggers").mkdir(parents=True, exist_ok=True)
        settings = location.folder / "cassandra.yaml"
        security_settings = (
            SECURITY_SETTINGS.format(certificate=security.certificate, ca=security.ca) if security else ""
        )
        settings.write_text(_settings(location, locations[0].host, port, storage_port, sync) + security_settings)
        engines.append(
            Engine(
                name=f"cassandra-{number}",
                command=_command(lib, settings, location.memory.heap),
                folder=location.folder,
                host=location.host,
                port=port,
            )
        )
    return engines


def _settings(location: _NodeLocation, seed: str, port: int, storage_port: int, sync: Sync) -> str:
    text = (CONFIG_FOLDER / "cassandra.yaml").read_text()
    placeholders = {
        "TOKEN": location.token,
        "HOST": location.host,
        "PORT": port,
        "STORAGE": storage_port,
        "SEED": f"{seed}:{storage_port}",
        "SYNC": sync,
        "MEMTABLES": location.memory.memtables,
    }
    for name, value in placeholders.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _command(lib: Path, settings: Path, heap: str) -> list[str]:
    return [
        "java",
        f"@{CONFIG_FOLDER / 'jvm.args'}",
        "-Xss256k",
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-XX:MaxDirectMemorySize=512m",
        # Least CPU work on two cores, with short pauses at this heap size. G1 used a tenth more CPU.
        "-XX:+UseParallelGC",
        "-XX:+PerfDisableSharedMem",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.net.preferIPv4Stack=true",
        f"-Djava.io.tmpdir={settings.parent / SCRATCH_FOLDER}",
        "-Dcassandra-foreground=yes",
        f"-Dcassandra.config=file://{settings}",
        "-Dcassandra.storagedir=.",
        "-Dcassandra.logdir=log",
        "-Dcassandra.triggers_dir=triggers",
        # A private ring on the loopback needs no time to settle.
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra.ring_delay_ms=100",
        "-Dcassandra.superuser_setup_delay_ms=0",
        "-Dcassandra.shutdown_announce_in_ms=0",
        f"-Dlogback.configurationFile=file://{CONFIG_FOLDER / 'logback.xml'}",
        "-Dchronicle.analytics.disable=true",
        f"-Dcassandra.jmx.local.port={free_port()}",
        "-cp",
        f"{lib}/*",
        "org.apache.cassandra.service.CassandraDaemon",
    ]
