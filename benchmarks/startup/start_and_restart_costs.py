"""`python -m benchmarks startup`: measures a start of `notifier up`, and restarts of roles.

Three ways to start the roles take turns: our fork server, that of `multiprocessing`, and an interpreter for each role.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import psutil

from benchmarks.costs_and_figures import Figure, Spread, unjudged
from benchmarks.fanout.suite import Parts
from benchmarks.process_stats import MB
from notifier.devkit.check.notifier_and_engine_processes import end_with_parent

WAYS = ("fork_server", "multiprocessing", "interpreters")
UNITS: Mapping[str, str] = {"ready_s": "s", "processor_s": "s", "pss_mb": "MB", "restart_s": "s"}
DETAILS: Mapping[str, str] = {
    "ready_s": "From the command to the ready file.",
    "processor_s": "All processes together, until the ready file exists.",
    "pss_mb": "Sum of the proportional set sizes of all processes, some seconds later.",
    "restart_s": "From the SIGKILL of a worker until its successor is ready.",
}
ROUNDS, ROUNDS_QUICK = 9, 3
RESTARTS = 3
"""Restarts per start. Their median counts."""
KILLED_ROLE = "p2"
SETTLE_SECONDS = 3.0
"""Seconds between readiness and the measurement of memory, in which the roles open their connections."""
TIMEOUT_SECONDS = 120.0
POLL_INTERVAL_SECONDS = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of all roles."""

    ready_s: float
    processor_s: float
    pss_mb: float
    restart_s: float


@dataclass(slots=True, kw_only=True)
class Service:
    process: "subprocess.Popen[bytes]"
    folder: Path
    began: float

    @property
    def ready_file(self) -> Path:
        return self.folder / "ready.json"

    def processes(self) -> Sequence[psutil.Process]:
        up = psutil.Process(self.process.pid)
        return [up, *up.children(recursive=True)]

    def pid(self, role: str) -> int:
        return int(json.loads(self.ready_file.read_text())["pids"][role])

    def works(self, role: str, killed: int) -> bool:
        """Return whether a successor of the killed process can work."""
        return (self.folder / "data/run/up" / role).read_text() != str(killed)

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "up.log").read_text()[-2_000:] or "(empty log)")
            time.sleep(POLL_INTERVAL_SECONDS)


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    rounds = ROUNDS_QUICK if quick else ROUNDS
    starts: dict[str, list[Start]] = {way: [] for way in WAYS}
    for number in range(rounds):
        # Each way goes first in a third of the rounds, because the first one finds other files in memory.
        for way in (*WAYS[number % len(WAYS) :], *WAYS[: number % len(WAYS)]):
            tell(f"round {number + 1} of {rounds}: {way}")
            with service(folder / f"{way}{number}", way) as started:
                starts[way].append(measure(started))
    return [figure(name, way, starts[way]) for name in UNITS for way in WAYS]


def figure(name: str, way: str, starts: Sequence[Start]) -> Figure:
    values = [float(asdict(start)[name]) for start in starts]
    return unjudged(f"up_{name}{{{way}}}", Spread.of(values, UNITS[name]), len(values), DETAILS[name])


@contextmanager
def service(folder: Path, way: str) -> Iterator[Service]:
    """Yield a service that starts on an empty data folder, and end it."""
    folder.mkdir()
    os.sync()
    command = [
        sys.executable,
        "-m",
        "benchmarks.startup.run_up_by_start_method",
        way,
        str(folder / "data"),
        str(folder / "ready.json"),
    ]
    with (folder / "up.log").open("wb") as log:
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call without a lock
        )
    try:
        yield Service(process=process, folder=folder, began=began)
    finally:
        process.terminate()
        try:
            process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def measure(started: Service) -> Start:
    started.wait(started.ready_file.exists)
    ready_s = time.monotonic() - started.began
    processor_s = sum(map(cpu_seconds, started.processes()))
    time.sleep(SETTLE_SECONDS)
    pss = sum(map(proportional_size, started.processes()))
    return Start(
        ready_s=ready_s,
        processor_s=processor_s,
        pss_mb=pss / MB,
        restart_s=median(restart(started) for _ in range(RESTARTS)),
    )


def restart(started: Service) -> float:
    killed = started.pid(KILLED_ROLE)
    began = time.monotonic()
    os.kill(killed, signal.SIGKILL)
    started.wait(lambda: started.works(KILLED_ROLE, killed))
    seconds = time.monotonic() - began
    started.wait(lambda: started.pid(KILLED_ROLE) != killed)
    return seconds


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU seconds of the process and of its children that it has waited for."""
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def proportional_size(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.memory_full_info().pss)
    return 0


PARTS: Parts = {"startup": (run, tuple(f"up_{name}{{{way}}}" for name in UNITS for way in WAYS))}
