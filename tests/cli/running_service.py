"""A real `notifier up` in its own process, shared by the tests of a module."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from notifier.cli.running_service import Ready, read_ready
from notifier.devkit.check.notifier_and_engine_processes import end_with_parent
from notifier.domain.errors import NotRunning
from tests.repo.repository_files import ROOT

STARTS_WITHIN = 120.0
"""Seconds until a service has started, or has done what a test waits for.

They only bound a failing wait. An idle machine needs two seconds for a start; two cores with a load of 30 took more
than 30.
"""
GONE_WITHIN = 60.0
"""Seconds until a service has ended after SIGTERM; an idle machine needs one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    data: Path
    process: "subprocess.Popen[bytes]"

    @property
    def ready(self) -> Ready:
        return read_ready(self.data)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, "notifier up has ended"
        try:
            # The folder may still have the ready file of an earlier service.
            return self.ready.pids.get("up") == self.process.pid
        except NotRunning:
            return False

    def end(self) -> None:
        """Stop the service, and return when all of its processes have ended."""
        self.process.terminate()
        try:
            self.process.wait(GONE_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def start_service(data: Path, ready_file: Path, *options: str, within: float = STARTS_WITHIN) -> Running:
    # One API process on any machine. If an option is given twice, the last one wins.
    arguments = ["up", "--data", str(data), "--port", "0", "--workers", "1", "--ready-file", str(ready_file), *options]
    with (data / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "notifier", *arguments],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
        )
    running = Running(data=data, process=process)
    try:
        # The requested ready file is written last.
        until(lambda: running.is_ready() and ready_file.exists(), within)
    except BaseException:
        # A service that starts too late would outlive the tests, slow down all later ones, and hold the folder's lock.
        running.end()
        raise
    return running


@dataclass(slots=True, kw_only=True)
class SharedService:
    """One service for several tests, because a start costs as much as most tests. It restarts after a test ended it."""

    data: Path
    options: Sequence[str] = ()
    last: Running | None = field(default=None)

    def running(self) -> Running:
        if self.last is None or self.last.process.poll() is not None:
            self.last = start_service(self.data, self.data / "asked-for.json", *self.options)
        return self.last

    def end(self) -> None:
        if self.last and self.last.process.poll() is None:
            self.last.end()


def until(condition: Callable[[], bool], within: float) -> None:
    """Return as soon as the condition is true; fail if it is not true in time."""
    deadline = monotonic() + within
    while not condition():
        assert monotonic() < deadline, f"not within {within} s"
        sleep(0.02)


def is_running(pid: int) -> bool:
    """Return whether the process is running. A zombie is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc").exists()
