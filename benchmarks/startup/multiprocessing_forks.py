"""Roles forked by the fork server of `multiprocessing`, to compare it with our own.

It has only what the measurement needs. Decision 64 lists what is missing.
"""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import BinaryIO

from notifier.cli.supervisor.forkserver import MODULES, PROFILE_MODULES
from notifier.cli.supervisor.forkserver_client import IMPORT_ENVIRONMENT
from notifier.config import environment_with, replace_environment, set_in_environment

CONTEXT = get_context("forkserver")
GRACE_SECONDS = 2.0
"""Seconds for a role to stop once `up` has ended."""


@dataclass(slots=True, kw_only=True)
class LibraryRole:
    process: ForkServerProcess

    @property
    def pid(self) -> int:
        assert self.process.pid
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and monotonic() >= deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            sleep(0.01)
        return code

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


@dataclass(slots=True, kw_only=True)
class LibraryForks:
    first_fork: Thread = field(init=False)
    """The library's first start blocks until the imports are done, so a thread makes it."""

    def __post_init__(self) -> None:
        self.first_fork = Thread(target=_fork_once, name="first fork", daemon=True)
        self.first_fork.start()

    def poll_starting(self) -> bool:
        return self.first_fork.is_alive()

    def fork(self, arguments: Sequence[str], environment: Mapping[str, str], log: BinaryIO) -> LibraryRole | None:
        role = (list(arguments), environment_with(environment), Path(log.name))
        process = CONTEXT.Process(target=run_role, args=role)
        process.start()
        return LibraryRole(process=process)


def _fork_once() -> None:
    with suppress(OSError, EOFError):
        first = CONTEXT.Process(target=os.getpid)
        first.start()
        first.join()


def run_role(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    """Become `notifier` with these arguments, in a new session, with its output in the log."""
    gc.freeze()  # the library calls nothing between its imports and its first fork
    os.setsid()
    with open(os.devnull, "rb") as nothing, log.open("ab") as out:
        os.dup2(nothing.fileno(), 0)
        for stream in (1, 2):
            os.dup2(out.fileno(), stream)
    replace_environment(environment)
    from notifier import __main__ as notifier

    # A role watches its actual parent: the fork server.
    parent = arguments.index("--parent") + 1
    sys.argv = [str(Path(notifier.__file__)), *arguments[:parent], str(os.getppid()), *arguments[parent + 1 :]]
    Thread(target=_end_with_up, name="up", daemon=True).start()
    notifier.run()


def _end_with_up() -> None:
    """End the role with `up`. The library's fork server doesn't, because each role keeps its pipe to `up` open."""
    up = parent_process()
    assert up
    up.join()
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(GRACE_SECONDS)
    os.killpg(0, signal.SIGKILL)


@contextmanager
def multiprocessing_forks(profile: str, logs: Path) -> Iterator[LibraryForks]:
    """Yield the library's forks as a parameter of `run_service`.

    The library writes to the terminal instead of to a log.
    """
    for name, value in IMPORT_ENVIRONMENT.items():
        set_in_environment(name, value)
    CONTEXT.set_forkserver_preload([*MODULES, *PROFILE_MODULES.get(profile, ()), __name__])
    yield LibraryForks()
