"""Runs processes beside the product, which are queried with lines of JSON and always stopped."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import Any, Self

from benchmarks.inbox.figures import LoadReading
from notifier.devkit.check.notifier_and_engine_processes import end_with_parent

ANSWER_TIMEOUT_SECONDS = 400.0
"""The longest load takes 150 s, and is stopped ten seconds later."""
STOP_TIMEOUT_SECONDS = 5.0
LAST_LINES = 3
CLIENT = ("-m", "benchmarks.inbox.load_generator")


class HelperFailed(RuntimeError):
    """A process beside the product ended or gave no response."""


@dataclass(slots=True, kw_only=True)
class HelperProcess:
    """A Python process that writes a line when it is ready."""

    arguments: Sequence[str]
    """Its command-line arguments."""
    log: Path
    python: str = sys.executable
    process: "subprocess.Popen[bytes] | None" = None
    first: Any = None
    """Its first line, decoded."""

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.python, *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the benchmark, which stops it
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call without a lock
            )
        try:
            self.first = self.receive()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def ask(self, request: Mapping[str, object]) -> Any:
        """Send a line and return the next line of the process, decoded. Raises HelperFailed."""
        self.send(request)
        return self.receive()

    def send(self, request: Mapping[str, object]) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise HelperFailed(f"{self._name} ended: {self._last_log_lines()}") from None

    def receive(self) -> Any:
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select([self.process.stdout], [], [], ANSWER_TIMEOUT_SECONDS)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise HelperFailed(f"{self._name} gave no response: {self._last_log_lines()}")
        return json.loads(line)

    def stop(self) -> None:
        if self.process is None:
            return
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # the process has ended, and its last request is still in the buffer
            self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process = None

    @property
    def _name(self) -> str:
        return " ".join(self.arguments[:2])

    def _last_log_lines(self) -> str:
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]) or "(empty log)"


@dataclass(frozen=True, slots=True)
class LoadClient:
    """The load generator. Each thread needs its own."""

    process: HelperProcess

    @classmethod
    def new(cls, folder: Path, name: str = "client") -> Self:
        return cls(HelperProcess(arguments=CLIENT, log=folder / f"{name}.log"))

    def run(self, requests: Path, port: int, **job: object) -> LoadReading:
        """Run one load and return its measurements. Raises HelperFailed."""
        answer = self.process.ask({"requests": str(requests), "port": port, **job})
        statuses = {int(status): count for status, count in answer.pop("statuses").items()}
        return LoadReading(statuses=statuses, **answer)
