"""Starts, watches and restarts one child process of `notifier up`."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from notifier.cli.supervisor.forkserver_client import RoleForks, RoleProcess
from notifier.cli.supervisor.heartbeat import HeartbeatWatch
from notifier.config import environment_with
from notifier.domain.backoff_due_times_alert_ages import Backoff

LOGGER = logging.getLogger("notifier.up")

BACKOFF = Backoff(first=timedelta(milliseconds=100), longest=timedelta(seconds=2))
"""Delay between the death of a process and its restart."""
STEADY_UPTIME_SECONDS = 10.0
"""Seconds of uptime after which the restart delay is reset."""
NOT_STARTED_EXIT_CODE = 126
"""Exit code of a process that could not be started, as in a shell."""
MAX_LOG_BYTES = 16 << 20
"""Size above which a log is rotated when its process starts."""

DIED, HUNG = "died", "hung"
"""Causes of a restart, as labels of a metric."""


Start = Callable[[], RoleProcess | None]
"""Starts a process, or returns None if that is not possible yet. Raises OSError."""


@dataclass(slots=True, kw_only=True)
class Child:
    """One process of `up`, with its restarts."""

    name: str
    """Name of the process, such as `api-2`. Logs and metrics call it the role."""
    start: Start
    now: Callable[[], float] = monotonic
    heartbeat: HeartbeatWatch | None = None
    """Heartbeat of the process. None: it is restarted only when it dies."""
    on_end: Callable[[str], None] = lambda cause: None
    """Called with the cause of every unexpected end."""
    is_awaited: bool = True
    """Whether `up` is ready only once this process is ready."""
    process: RoleProcess | None = None
    exit_codes: list[int] = field(default_factory=list)
    """Exit codes, oldest first. The end of a process that ran for STEADY_UPTIME_SECONDS removes the earlier ones."""
    started_at: float = 0.0
    next_start_at: float = 0.0
    """Earliest time of the next start."""
    is_hung: bool = False
    """Whether the process was killed because it sent no heartbeat."""

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def supervise(self) -> None:
        """Start the process when it is due, detect its death, and kill it when it hangs."""
        if self.process is None:
            if self.now() >= self.next_start_at:
                self._start()
        elif (code := self.process.poll()) is not None:
            self._on_death(code)
        elif self.heartbeat and self.heartbeat.poll_hung():
            self._kill(self.heartbeat.limit)

    def _start(self) -> None:
        self.started_at, self.is_hung = self.now(), False
        if self.heartbeat:
            self.heartbeat.restart()
        try:
            self.process = self.start()
        except OSError:  # treat it as a process that died at once
            self._on_death(NOT_STARTED_EXIT_CODE)

    def _kill(self, silence_seconds: float) -> None:
        """Kill the process without SIGTERM, which a hung process may not handle."""
        assert self.process is not None
        LOGGER.warning(
            "no heartbeat from role %s (process %d) for %g s, killing and restarting it",
            self.name,
            self.process.pid,
            silence_seconds,
        )
        self.is_hung = True
        os.killpg(self.process.pid, signal.SIGKILL)

    def _on_death(self, code: int) -> None:
        self.on_end(HUNG if self.is_hung else DIED)
        if self.now() - self.started_at >= STEADY_UPTIME_SECONDS:
            self.exit_codes.clear()
        self.process = None
        self.exit_codes.append(code)
        self.next_start_at = self.now() + BACKOFF.delay(len(self.exit_codes) - 1).total_seconds()

    def ask_to_stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()

    def end(self, deadline: float) -> None:
        """Wait for the process until the deadline, then kill its whole process group."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.0, deadline - self.now()))
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def make_start(arguments: Sequence[str], environment: Mapping[str, str], log: Path, forks: RoleForks | None) -> Start:
    """Return a function that starts a child process `notifier` with these arguments.

    The child leads a process group, and ends when this process ends. Without `forks`, or if a fork fails, it gets an
    interpreter of its own.
    """
    command_line = [*arguments, "--parent", str(os.getpid())]

    def start() -> RoleProcess | None:
        if forks and forks.poll_starting():
            return None
        rotate_large_log(log)
        with log.open("ab") as log_file:
            forked = forks.fork(command_line, environment, log_file) if forks else None
            return forked or start_interpreter(command_line, environment, log_file)

    return start


def start_interpreter(
    arguments: Sequence[str], environment: Mapping[str, str], log_file: BinaryIO
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "notifier", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=log_file,
        stderr=subprocess.STDOUT,
        env=environment_with(environment),
        start_new_session=True,
    )


def rotate_large_log(log: Path) -> None:
    """Rename a log of more than MAX_LOG_BYTES, replacing the previously renamed log."""
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))


def last_line(log: Path) -> str:
    """Return the last line that the process wrote, as the end of an error message."""
    if not log.exists():
        return "it could not be run."
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it logged nothing.")
