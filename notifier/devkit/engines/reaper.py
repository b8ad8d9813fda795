"""Ends engines with the process that they are for, whatever ends it: a SIGKILL leaves nobody to stop them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep

LOOKS_EVERY = 0.5


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """While the block lasts; who comes to its end has stopped the engines himself."""
    watcher = watch(folder, os.getpid())
    try:
        yield
    finally:
        watcher.kill()
        watcher.wait()


def watch(folder: Path, runner: int) -> "subprocess.Popen[bytes]":
    """A process that outlives the runner and then kills each engine with data below the folder."""
    command = [sys.executable, "-m", "notifier.devkit.engines.reaper", str(folder.absolute()), str(runner)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


def _watch(folder: str, runner: int) -> None:
    while _runs(runner):
        sleep(LOOKS_EVERY)
    for pid in _engines(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    """One that has ended, and whose parent hasn't asked how, has a number still."""
    said = subprocess.run(["ps", "-p", str(pid), "-o", "stat="], capture_output=True, text=True, check=False).stdout
    return bool(said.strip()) and not said.startswith("Z")


def _engines(folder: str) -> list[int]:
    """By the paths in their command lines, which each engine has; a restart gives it another number."""
    said = subprocess.run(["ps", "-ww", "-axo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    lines = [line.split(maxsplit=1) for line in said.splitlines()]
    return [int(pid) for pid, args in lines if f"{folder}/" in args and int(pid) != os.getpid()]


if __name__ == "__main__":
    _watch(sys.argv[1], int(sys.argv[2]))
