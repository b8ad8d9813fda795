"""A cluster of three Valkey servers; and a replica with its sentinel."""

from collections.abc import Sequence
from pathlib import Path

from notifier.adapters.redis.cluster import SLOT_COUNT
from notifier.adapters.valkey import valkey_binary
from notifier.devkit.engines.engine_process import Engine, free_port
from notifier.devkit.engines.valkey import HOST, server

NODES = 3
NODE = """\
cluster-enabled yes
cluster-port {bus}
cluster-node-timeout 2000
"""
SENTINEL = """\
bind {host}
port {port}
dir "{folder}"
requirepass {password}
sentinel monitor {service} {host} {primary} 1
sentinel auth-pass {service} {password}
sentinel down-after-milliseconds {service} 500
sentinel failover-timeout {service} 3000
"""


def nodes(folder: Path, *, password: str) -> Sequence[Engine]:
    return [
        server(folder / str(number), port=free_port(), password=password, extra_settings=NODE.format(bus=free_port()))
        for number in range(NODES)
    ]


def slots(number: int) -> tuple[int, int]:
    """Return the first and the last slot of a node."""
    return SLOT_COUNT * number // NODES, SLOT_COUNT * (number + 1) // NODES - 1


def replica(folder: Path, *, of: Engine, password: str) -> Engine:
    also = f"replicaof {of.host} {of.port}\nmasterauth {password}\n"
    return server(folder, port=free_port(), password=password, extra_settings=also)


def sentinel(folder: Path, *, of: Engine, service: str, password: str) -> Engine:
    """Return a sentinel, which rewrites its own settings.

    It promotes the replica when the primary is silent for half a second.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings, port = folder / "sentinel.conf", free_port()
    settings.touch(mode=0o600)
    settings.write_text(
        SENTINEL.format(
            host=HOST, port=port, folder=folder.absolute(), password=password, service=service, primary=of.port
        )
    )
    command = [str(valkey_binary()), str(settings.absolute()), "--sentinel"]
    return Engine(name="sentinel", command=command, folder=folder, host=HOST, port=port)
