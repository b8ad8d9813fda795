"""An engine: somebody else's server as a child process, which is started, awaited, stopped, frozen or killed."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from notifier.domain.errors import Environment

READY_WITHIN = 180.0
"""Seconds; an idle machine needs 2 for Kafka and 6 for Cassandra, and a very busy one twenty times as many."""
STOPS_WITHIN = 20.0
"""Seconds; Cassandra takes 5 to flush and to leave."""
LOOKS_EVERY = 0.05
SCRATCH = "scratch"
"""Below its folder: what libraries in it unpack to run, which who is killed leaves behind."""
LAST_WORDS = 5
"""Lines of its log that tell why an engine ended."""


@dataclass(slots=True, kw_only=True)
class Engine:
    """Its data outlives it: who starts it again in the same folder gets what was acknowledged before."""

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
        """Returns at once; several engines start side by side. Raises Environment when its port is somebody else's."""
        if self.answers():
            raise Environment(f"{self.address}, where {self.name} would listen, is in use.")
        shutil.rmtree(self.folder / SCRATCH, ignore_errors=True)
        (self.folder / SCRATCH).mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            # In a session of its own: a Ctrl-C in the terminal is for whoever started it, and who stops it says so.
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def ready(self, within: float = READY_WITHIN) -> None:
        """Returns when it listens. Raises Environment, with its last words, when it ends or takes too long."""
        deadline = monotonic() + within
        while not self.answers():
            if self.pid is None:
                raise Environment(f"{self.name} ended while it started: {self.last_words()}")
            if monotonic() > deadline:
                raise Environment(f"{self.name} doesn't listen after {within:g} s: {self.last_words()}")
            sleep(LOOKS_EVERY)

    def answers(self) -> bool:
        return listens(self.host, self.port)

    def stop(self) -> None:
        """As its operator would; who doesn't end within the time is killed."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        if self.process is not None:
            try:
                self.process.wait(STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """At once, in the middle of whatever it does."""
        self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def freeze(self) -> None:
        """It keeps its connections and answers nobody, until it is woken."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return " / ".join(lines[-LAST_WORDS:]) or "it said nothing"

    def _signal(self, number: int) -> None:
        if (pid := self.pid) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def listens(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=1.0):
        return True
    return False


def free_port(host: str = "127.0.0.1") -> int:
    """Nobody's at this moment."""
    with socket.socket() as one:
        one.bind((host, 0))
        return int(one.getsockname()[1])


# How an engine of a test is closed to strangers: TLS by a certificate, and one user with a password.


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Each engine's own words for it stand in its folder here."""

    certificate: Path
    """Its key and its certificate in one PEM file, the key unencrypted and in PKCS #8."""
    ca: Path
    """The authority's certificate, as PEM."""
    user: str
    password: str = field(repr=False)
