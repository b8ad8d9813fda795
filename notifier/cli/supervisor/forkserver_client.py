"""Client of the fork server: starts it and requests the roles of `notifier up`."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM
from time import monotonic, sleep
from typing import BinaryIO, Protocol

from notifier.cli.supervisor import forkserver
from notifier.cli.supervisor.forkserver import READY, ForkRequest
from notifier.cli.supervisor.linux_process_calls import adopting_orphans
from notifier.config import environment_with

LOGGER = logging.getLogger("notifier.up")

LOG_NAME = "forkserver"
IMPORT_TIMEOUT_SECONDS = 60.0
"""Time limit of the imports. An idle machine needs one second, a crowded machine far more."""
FORK_TIMEOUT_SECONDS = 5.0
"""Time limit of one fork. A fork takes milliseconds."""
MAX_CONSECUTIVE_FAILURES = 2
"""Failed starts or forks in a row after which no fork server is started. Each role then gets its own interpreter."""
IMPORT_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
"""Keeps numpy from starting a thread per core, which a fork would lose."""
ARGUMENT_PADDING = " " * 1000
"""Unused argument. It reserves room in which roles show their own arguments (`set_command_line`)."""
UNKNOWN_EXIT_CODE = 1
"""Exit code to report if the real one is lost, because something else in this process has waited for the role."""


class RoleProcess(Protocol):
    """A process that leads a process group."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code. Raises subprocess.TimeoutExpired."""

    def terminate(self) -> None: ...


class RoleForks(Protocol):
    """Starts roles as forks of a process that has already imported their modules."""

    def poll_starting(self) -> bool:
        """Start the fork server if none runs. Return whether it is still starting.

        False means that a fork is possible, or that no fork server runs because it failed.
        """

    def fork(self, arguments: Sequence[str], environment: Mapping[str, str], log: BinaryIO) -> RoleProcess | None:
        """Run `notifier` in a fork. Return None if that failed: the caller must start an interpreter instead."""


OpenForks = Callable[[str, Path], AbstractContextManager[RoleForks | None]]
"""Opens a fork server. The arguments are the profile and the folder of the log.

Yields None if this system can't fork roles.
"""


@dataclass(slots=True, kw_only=True)
class ForkedRole:
    """A forked role, with methods of `subprocess.Popen`, which can't manage an existing process."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.returncode = UNKNOWN_EXIT_CODE
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and monotonic() >= deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            sleep(0.01)
        return code

    def terminate(self) -> None:
        if self.poll() is None:  # after its end, another process may have its id
            os.kill(self.pid, SIGTERM)


@dataclass(slots=True, kw_only=True)
class ForkServer:
    """Keeps a fork server running. Roles are children of this process, so they survive the end of the fork server."""

    profile: str
    log: Path
    environment: Mapping[str, str] = field(default_factory=lambda: IMPORT_ENVIRONMENT)
    fork_timeout: float = FORK_TIMEOUT_SECONDS
    process: "subprocess.Popen[bytes] | None" = None
    channel: socket.socket | None = None
    is_ready: bool = False
    started_at: float = 0.0
    failure_count: int = 0
    """Consecutive failed starts and forks."""

    def start(self) -> None:
        """Start the server without waiting for its imports.

        Call it in the main thread: the kernel kills the server when the calling thread ends.
        """
        self.is_ready, self.started_at = False, monotonic()
        self.channel, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with server_end, self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", forkserver.__name__, self.profile, str(os.getpid()), ARGUMENT_PADDING],
                stdin=server_end.fileno(),
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment_with(self.environment),
                start_new_session=True,
            )

    def poll_starting(self) -> bool:
        if self.process and not self.is_ready:
            self._read_ready()
        if self.process and (self.process.poll() is not None):
            self._fail()
        if self.process is None and self.failure_count < MAX_CONSECUTIVE_FAILURES:
            try:
                self.start()
            except OSError:
                self._fail()
        return self.process is not None and not self.is_ready

    def fork(self, arguments: Sequence[str], environment: Mapping[str, str], log: BinaryIO) -> ForkedRole | None:
        if not self.is_ready:
            return None
        try:
            with adopting_orphans():
                pid = self._request_fork(
                    ForkRequest(arguments=arguments, environment=environment_with(environment)), log
                )
        except (OSError, ValueError):
            self._fail()
            return None
        self.failure_count = 0
        return ForkedRole(pid=pid)

    def end(self) -> None:
        if self.channel:
            self.channel.close()
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process, self.channel, self.is_ready = None, None, False

    def _fail(self) -> None:
        self.failure_count += 1
        self.end()
        if self.failure_count == MAX_CONSECUTIVE_FAILURES:
            LOGGER.warning(
                "%d consecutive failures of the fork server, each role gets an interpreter of its own: see %s",
                MAX_CONSECUTIVE_FAILURES,
                self.log,
            )

    def _read_ready(self) -> None:
        assert self.channel
        with suppress(OSError):
            self.channel.setblocking(False)
            self.is_ready = self.channel.recv(len(READY)) == READY
        if not self.is_ready and monotonic() > self.started_at + IMPORT_TIMEOUT_SECONDS:
            self._fail()

    def _request_fork(self, request: ForkRequest, log: BinaryIO) -> int:
        """Return the process id of the role. Raises OSError, or ValueError if the response is not an id."""
        assert self.channel
        self.channel.settimeout(self.fork_timeout)
        socket.send_fds(self.channel, [request.encode()], [log.fileno()])
        try:
            return int(self.channel.recv(64))
        except TimeoutError:
            # Shut down, so that no role runs unnoticed: a role that reports later gets an error and ends. A role that
            # reported earlier is adopted: its report can still be received.
            self.channel.shutdown(socket.SHUT_RDWR)
            return int(self.channel.recv(64))


@contextmanager
def fork_server(profile: str, logs: Path) -> Iterator[ForkServer | None]:
    """Run a fork server while the block lasts.

    Yields None on other systems than Linux. On macOS, forks aren't safe: the system's own libraries start threads.
    """
    if sys.platform != "linux":
        yield None
        return
    server = ForkServer(profile=profile, log=logs / f"{LOG_NAME}.log")
    server.poll_starting()
    try:
        yield server
    finally:
        server.end()
