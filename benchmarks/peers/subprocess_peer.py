"""Runs a peer's process in its own environment, and queries it round by round."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from notifier.devkit.check.notifier_and_engine_processes import end_with_parent

SERVE = Path(__file__).parent / "inside" / "run_delivery_peer.py"
ANSWER_TIMEOUT_SECONDS = 90.0
"""A round takes one or two seconds."""
STOP_TIMEOUT_SECONDS = 8.0
"""Longer than the process waits for its own children."""


class PeerFailed(RuntimeError):
    """A peer gave no response, or did not reach each user exactly once."""


@dataclass(slots=True, kw_only=True)
class PeerProcess:
    python: Path
    place: str
    """FILE:NAME of the peer's class or function."""
    argument: str
    """The argument for NAME."""
    log: Path
    script: Path = SERVE
    """The script that it runs."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables in addition to ours."""
    process: "subprocess.Popen[bytes] | None" = None

    def __enter__(self) -> "PeerProcess":
        """Start the process and wait until it is ready."""
        try:
            self._start()
            self._answer()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def deliver(self, people: Path, count: int, burst: int) -> float:
        """Deliver to the users in the file and return the seconds.

        Raises PeerFailed unless it reached each exactly once.
        """
        answer = self.ask({"people": str(people), "burst": burst})
        if answer["reached"] != count:
            raise PeerFailed(f"it reached {answer['reached']:,} of {count:,} users")
        return float(answer["seconds"])

    def ask(self, question: Mapping[str, object]) -> Mapping[str, Any]:
        """Send a question and return the response. Raises PeerFailed if there is none."""
        assert self.process is not None
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise PeerFailed(f"it ended: {self._last_words()}") from None
        return self._answer()

    def stop(self) -> None:
        """Stop the process and its children: when its input ends, it ends its children first."""
        if self.process is None:
            return
        with suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.process = None

    def _start(self) -> None:
        # Without our paths and settings: it must import only the packages of its own environment.
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        command = [
            "env",
            *settings,
            str(self.python),
            "-E",
            "-s",
            "-W",
            "ignore",
            str(self.script),
            self.place,
            self.argument,
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is handled by the benchmark
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call without a lock
            )

    def _answer(self) -> dict[str, Any]:
        """Return the response: one line, written at once."""
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_TIMEOUT_SECONDS)
        if not ready:
            raise PeerFailed(f"no response within {ANSWER_TIMEOUT_SECONDS:g} s")
        if not (line := self.process.stdout.readline()):
            raise PeerFailed(f"it ended: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "(empty log)"
