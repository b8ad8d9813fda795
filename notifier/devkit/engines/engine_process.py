"""Third-party server as a child process: start, await, stop, freeze and kill."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EADDRINUSE
from pathlib import Path
from time import monotonic, sleep

from notifier.domain.errors import UnusableEnvironment

READY_TIMEOUT_SECONDS = 180.0
"""Time limit of a start. An idle machine needs 2 s for Kafka and 6 s for Cassandra, a busy one twenty times that."""
STOP_TIMEOUT_SECONDS = 20.0
"""Time limit of a stop. Cassandra takes 5 s to flush and to shut down."""
POLL_INTERVAL_SECONDS = 0.05
SUSPEND_INTERVAL_SECONDS = 0.001
PORTS = range(20_000, 32_768)
"""Ports for engines. Linux takes higher ports for outgoing connections."""
RETURNED_PORTS: "set[int]" = set()
"""Ports that this process has already chosen. Their engines may not listen yet."""
SCRATCH_FOLDER = "scratch"
"""Subfolder for files that libraries unpack at startup. A killed engine leaves them behind."""
SHOWN_LOG_LINES = 5
"""Number of last log lines that an error shows."""


@dataclass(slots=True, kw_only=True)
class Engine:
    """One server process. The data of Kafka and Cassandra stays in the folder, and survives a restart.

    Valkey loses its data when it ends. A killed Cassandra with Sync.PERIODIC may lose its last acknowledged writes.
    """

    name: str
    command: Sequence[str]
    folder: Path
    host: str
    port: int
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process and self.process.poll() is None else None

    def start(self) -> None:
        """Start the process without waiting for it. Raises UnusableEnvironment if its port is in use."""
        if self.is_listening():
            raise UnusableEnvironment(f"{self.address}, the address of {self.name}, is in use.")
        shutil.rmtree(self.folder / SCRATCH_FOLDER, ignore_errors=True)
        (self.folder / SCRATCH_FOLDER).mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            # A separate session, so that Ctrl-C in the terminal only reaches the parent, which then stops the engine.
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def wait_until_ready(self, timeout: float = READY_TIMEOUT_SECONDS) -> None:
        """Wait until the process listens. Raises UnusableEnvironment if it ends or takes too long."""
        deadline = monotonic() + timeout
        while not self.is_listening():
            if self.pid is None:
                raise UnusableEnvironment(f"{self.name} ended during startup: {self.last_log_lines()}")
            if monotonic() > deadline:
                raise UnusableEnvironment(f"{self.name} doesn't listen after {timeout:g} s: {self.last_log_lines()}")
            sleep(POLL_INTERVAL_SECONDS)

    def is_listening(self) -> bool:
        return is_listening(self.host, self.port)

    def stop(self) -> None:
        """Stop the process with SIGTERM, and kill it if it does not end in time."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        if self.process is not None:
            try:
                self.process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def freeze(self) -> None:
        """Suspend the process until `resume`. It keeps its connections and does not respond."""
        if (pid := self.pid) is not None:
            suspend(pid)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def last_log_lines(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return " / ".join(lines[-SHOWN_LOG_LINES:]) or "it logged nothing"

    def _signal(self, number: int) -> None:
        if (pid := self.pid) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def suspend(pid: int) -> None:
    """Suspend a process and wait until all of its threads have stopped. On a busy machine that takes a while."""
    os.kill(pid, signal.SIGSTOP)
    while any(_is_active(thread) for thread in Path(f"/proc/{pid}/task").glob("*/stat")):
        sleep(SUSPEND_INTERVAL_SECONDS)


def _is_active(thread: Path) -> bool:
    with suppress(OSError):  # the thread has ended
        state = thread.read_text().rpartition(") ")[2][:1]
        return state not in "TtZX"
    return False


def is_listening(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=1.0):
        return True
    return False


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now, and that no outgoing connection gets before the engine listens.

    In one process, no two calls return the same port.
    """
    while True:
        port = PORTS.start + secrets.randbelow(len(PORTS))
        if port in RETURNED_PORTS:
            continue
        try:
            with socket.socket() as probe:
                probe.bind((host, port))
            RETURNED_PORTS.add(port)
            return port
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise


# Access control of test engines: TLS, and one user with a password.


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """TLS files and credentials. Cassandra ignores the credentials: the user must be created after the start."""

    certificate: Path
    """PEM file with the server's certificate and its unencrypted PKCS #8 key."""
    ca: Path
    """PEM file with the certificate of the authority."""
    user: str
    password: str = field(repr=False)
