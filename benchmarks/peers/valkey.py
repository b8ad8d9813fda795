"""The peers' own Valkey, with every advantage: a local socket, no persistence, no other data."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from notifier.adapters.valkey.server import valkey_binary
from notifier.devkit.check.notifier_and_engine_processes import end_with_parent
from notifier.domain.errors import CacheUnavailable

START_TIMEOUT_SECONDS = 10.0
POLL_INTERVAL_SECONDS = 0.02
# No port: only processes that may enter the folder reach it, so no password slows a peer.
CONFIG = ("--port", "0", "--save", "", "--appendonly", "no", "--unixsocketperm", "700")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersValkey:
    socket: Path

    def forget(self) -> None:
        """Delete the rows but not Celery's queues, so that each round begins with empty inboxes."""
        with redis.Redis(unix_socket_path=str(self.socket)) as client:
            client.flushdb()


@contextmanager
def peers_valkey(folder: Path) -> Iterator[PeersValkey]:
    """Yield a running Valkey and kill it afterwards. Raises NoValkey or CacheUnavailable."""
    socket, log = folder / "valkey", folder / "valkey.log"
    command = [str(valkey_binary()), *CONFIG, "--unixsocket", str(socket), "--dir", str(folder), "--logfile", str(log)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is handled by the benchmark, which stops it after its clients
        preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call without a lock
    )
    try:
        _wait(process, socket)
        yield PeersValkey(socket=socket)
    finally:
        process.kill()  # nothing in it is needed
        process.wait()


def _wait(process: "subprocess.Popen[bytes]", socket: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise CacheUnavailable("the peers' Valkey did not start")
        time.sleep(POLL_INTERVAL_SECONDS)
