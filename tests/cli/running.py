"""A real `notifier up` in a process of its own, shared by the tests of a module, and what can be asked of it."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from notifier.cli.ready import Ready, read_ready
from notifier.domain.errors import NotRunning
from tests.repo.sources import ROOT

STARTS_WITHIN = 30.0
"""Seconds, on a machine that is busy with other tests; an idle one needs two."""
GONE_WITHIN = 10.0


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
            return bool(self.ready.pids)
        except NotRunning:
            return False


def start(data: Path, ready_file: Path, *more: str) -> Running:
    words = ["up", "--data", str(data), "--port", "0", "--ready-file", str(ready_file), *more]
    with (data / "up.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "notifier", *words], cwd=ROOT, stdout=log, stderr=log)
    running = Running(data=data, process=process)
    # The file that was asked for is written last.
    until(lambda: running.is_ready() and ready_file.exists(), STARTS_WITHIN)
    return running


@dataclass(slots=True, kw_only=True)
class Shared:
    """One service for several tests, for a start costs as much as most of them; started anew after one ended it."""

    data: Path
    more: Sequence[str] = ()
    last: Running | None = field(default=None)

    def running(self) -> Running:
        if self.last is None or self.last.process.poll() is not None:
            self.last = start(self.data, self.data / "asked-for.json", *self.more)
        return self.last

    def end(self) -> None:
        if self.last and self.last.process.poll() is None:
            self.last.process.terminate()
            self.last.process.wait(GONE_WITHIN)


def until(true: Callable[[], bool], within: float) -> None:
    """Returns as soon as it is true; fails when it isn't in time."""
    deadline = monotonic() + within
    while not true():
        assert monotonic() < deadline, f"not within {within} s"
        sleep(0.02)


def lives(pid: int) -> bool:
    """A dead process that nobody has asked after yet doesn't."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc").exists()
