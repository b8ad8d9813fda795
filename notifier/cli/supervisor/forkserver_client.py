"""Copies of a template (`template.py`) as the roles of `notifier up`: begun in a moment, for the imports are made."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM
from time import monotonic, sleep
from typing import BinaryIO

from notifier.cli.supervisor import forkserver
from notifier.cli.supervisor.forkserver import READY, Request
from notifier.cli.supervisor.linux import adopting
from notifier.config import environment_with

LOGGER = logging.getLogger("notifier.up")

TEMPLATE = "template"
IMPORTS_WITHIN = 60.0
"""Seconds; an idle machine needs one, a crowded one may be long at importing."""
ANSWERS_WITHIN = 5.0
"""Seconds; it takes milliseconds."""
MOST_FAILURES = 2
"""In a row; after that every role is started by itself."""
OF_IMPORTS = {"OPENBLAS_NUM_THREADS": "1"}
"""Bitmaps need no linear algebra: without this every process starts a thread a core for it."""
TITLE = " " * 1000
"""Room for the words of a role, which is all that `ps` has."""
UNKNOWN = 1
"""The exit code of a process that somebody else was told of."""


@dataclass(slots=True, kw_only=True)
class Copy:
    """A child of this process that another one has forked; of `subprocess.Popen` as much as is needed."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.returncode = UNKNOWN
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and monotonic() >= deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            sleep(0.01)
        return code

    def terminate(self) -> None:
        if self.poll() is None:  # else the number may be somebody else's
            os.kill(self.pid, SIGTERM)


@dataclass(slots=True, kw_only=True)
class Copies:
    """The side of `up`. Nothing of it is lost with the template: who was copied is a child of this process."""

    profile: str
    log: Path
    environment: Mapping[str, str] = field(default_factory=lambda: OF_IMPORTS)
    patience: float = ANSWERS_WITHIN
    process: "subprocess.Popen[bytes] | None" = None
    channel: socket.socket | None = None
    ready: bool = False
    begun_at: float = 0.0
    failures: int = 0

    def begin(self) -> None:
        """Doesn't wait for the imports. For the main thread, with which the template ends."""
        self.ready, self.begun_at = False, monotonic()
        self.channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other, self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", forkserver.__name__, self.profile, str(os.getpid()), TITLE],
                stdin=other.fileno(),
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment_with(self.environment),
                start_new_session=True,
            )

    def pending(self) -> bool:
        """Whether who waits a little will be copied. Never blocks; begins the template anew where it has ended."""
        if self.process and not self.ready:
            self._hear()
        if self.process and (self.process.poll() is not None):
            self.fail()
        if self.process is None and self.failures < MOST_FAILURES:
            self._begin_or_fail()
        return self.process is not None and not self.ready

    def copy(self, words: Sequence[str], environment: Mapping[str, str], log: BinaryIO) -> Copy | None:
        """Of the template that is ready. None where that fails: the process is to be started another way."""
        if not self.ready:
            return None
        try:
            with adopting():
                pid = self._asked(Request(words=words, environment=environment_with(environment)), log)
        except (OSError, ValueError):
            self.fail()
            return None
        self.failures = 0
        return Copy(pid=pid)

    def end(self) -> None:
        if self.channel:
            self.channel.close()
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process, self.channel, self.ready = None, None, False

    def fail(self) -> None:
        self.failures += 1
        self.end()
        if self.failures == MOST_FAILURES:
            LOGGER.warning(
                "Roles are started one by one, for %d copies in a row failed: see %s.", MOST_FAILURES, self.log
            )

    def _hear(self) -> None:
        assert self.channel
        with suppress(OSError):
            self.channel.setblocking(False)
            self.ready = self.channel.recv(len(READY)) == READY
        if not self.ready and monotonic() > self.begun_at + IMPORTS_WITHIN:
            self.fail()

    def _begin_or_fail(self) -> None:
        try:
            self.begin()
        except OSError:
            self.fail()

    def _asked(self, request: Request, log: BinaryIO) -> int:
        """Raises OSError, or ValueError where there was no answer, or another."""
        assert self.channel
        self.channel.settimeout(self.patience)
        socket.send_fds(self.channel, [request.encoded()], [log.fileno()])
        try:
            return int(self.channel.recv(64))
        except TimeoutError:
            # Who answers from now on is refused, and ends; whose answer is here already is taken.
            self.channel.shutdown(socket.SHUT_RDWR)
            return int(self.channel.recv(64))


@contextmanager
def copies(profile: str, logs: Path) -> Iterator[Copies | None]:
    """None where a fork isn't safe: on macOS the system's own libraries have threads."""
    if sys.platform != "linux":
        yield None
        return
    made = Copies(profile=profile, log=logs / f"{TEMPLATE}.log")
    made.pending()
    try:
        yield made
    finally:
        made.end()
