"""The peers' own Valkey, with every advantage: a local socket, nothing written to a disk, nothing else in it."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from notifier.adapters.valkey.server import valkey_binary
from notifier.devkit.check.instance import end_with_parent
from notifier.domain.errors import CacheUnavailable

STARTS_WITHIN = 10.0
LOOKS_EVERY = 0.02
"""Seconds."""
# No port at all: only who may enter the folder reaches it, so that no password slows a peer.
CONFIG = ("--port", "0", "--save", "", "--appendonly", "no", "--unixsocketperm", "700")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersValkey:
    socket: Path

    def forget(self) -> None:
        """The rows, and not what Celery keeps of its queues: each round begins with empty inboxes."""
        with redis.Redis(unix_socket_path=str(self.socket)) as client:
            client.flushdb()


@contextmanager
def peers_valkey(folder: Path) -> Iterator[PeersValkey]:
    """Answers when it is entered, and is gone when it is left. Raises NoValkey or CacheUnavailable."""
    socket, log = folder / "valkey", folder / "valkey.log"
    command = [str(valkey_binary()), *CONFIG, "--unixsocket", str(socket), "--dir", str(folder), "--logfile", str(log)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for us: it is stopped after those who use it
        preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
    )
    try:
        _wait(process, socket)
        yield PeersValkey(socket=socket)
    finally:
        process.kill()  # there is nothing to keep
        process.wait()


def _wait(process: "subprocess.Popen[bytes]", socket: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise CacheUnavailable("The peers' Valkey didn't start.")
        time.sleep(LOOKS_EVERY)
