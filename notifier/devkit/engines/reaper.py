"""Reaper: a process that kills engines when their owner process dies, even by SIGKILL."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep

POLL_INTERVAL_SECONDS = 0.5


@contextmanager
def reaping(folder: Path) -> Iterator[None]:
    """Run a reaper for this process until the block ends. The caller must stop the engines in the block."""
    reaper = start_reaper(folder, os.getpid())
    try:
        yield
    finally:
        reaper.kill()
        reaper.wait()


def start_reaper(folder: Path, owner_pid: int) -> "subprocess.Popen[bytes]":
    """Start a process that waits for the end of `owner_pid` and then kills each engine of the folder."""
    command = [sys.executable, "-m", "notifier.devkit.engines.reaper", str(folder.absolute()), str(owner_pid)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


def _reap(folder: str, owner_pid: int) -> None:
    while _is_running(owner_pid):
        sleep(POLL_INTERVAL_SECONDS)
    for pid in _engines(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_running(pid: int) -> bool:
    """Return whether the process runs. A zombie counts as ended."""
    state = subprocess.run(["ps", "-p", str(pid), "-o", "stat="], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def _engines(folder: str) -> list[int]:
    """Return the current pids of the folder's engines: their command lines contain the path of the folder.

    A recorded pid would be wrong after a restart of the engine.
    """
    output = subprocess.run(["ps", "-ww", "-axo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    lines = [line.split(maxsplit=1) for line in output.splitlines()]
    return [int(pid) for pid, args in lines if f"{folder}/" in args and int(pid) != os.getpid()]


if __name__ == "__main__":
    _reap(sys.argv[1], int(sys.argv[2]))
