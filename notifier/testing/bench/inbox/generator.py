"""Handles of the processes that a bench of the inbox starts beside the product: load generator and baseline server."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import Any, Self

from notifier.testing.bench.inbox.measured import Reading
from notifier.testing.instance import end_with_parent

ANSWERS_WITHIN = 120.0
"""Seconds; the longest load takes 40."""
CLIENT, SERVER = "notifier.testing.bench.inbox.client", "notifier.testing.bench.inbox.server"


class LoadFailed(RuntimeError):
    """A process beside the product ended, or gave no answer."""


@dataclass(slots=True, kw_only=True)
class Aside:
    """A Python module as a child process that speaks in lines and ends with its input or a signal."""

    module: str
    words: Sequence[str]
    log: Path
    process: "subprocess.Popen[bytes] | None" = None

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module, *self.words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is None:
            return
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def say(self, words: Mapping[str, object]) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(words).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise LoadFailed(f"{self.module} ended: {self._last_words()}") from None

    def hear(self) -> Any:
        """Return the next line, decoded. Raises LoadFailed."""
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select([self.process.stdout], [], [], ANSWERS_WITHIN)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise LoadFailed(f"{self.module} gave no answer: {self._last_words()}")
        return json.loads(line)

    def _last_words(self) -> str:
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-3:]) or "it said nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The load generator, connected to one server."""

    aside: Aside

    def run(self, requests: Path, **job: object) -> Reading:
        self.aside.say({"requests": str(requests), **job})
        said = self.aside.hear()
        statuses = {int(status): count for status, count in said.pop("statuses").items()}
        return Reading(statuses=statuses, **said)
