"""A peer's process: started in its own environment, asked for one burst at a time, and always ended."""

import json
import os
import select
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from notifier.testing.instance import end_with_parent

SERVE = Path(__file__).parent / "inside" / "serve.py"
ANSWERS_WITHIN = 90.0
"""Seconds; a round takes one or two."""
STOPS_WITHIN = 8.0
"""More than the guest gives its own children."""


class GuestFailed(RuntimeError):
    """A peer gave no answer, or reached somebody not at all or twice."""


@dataclass(slots=True, kw_only=True)
class Guest:
    python: Path
    place: str
    """FILE:NAME of what makes the peer."""
    socket: Path
    log: Path
    process: "subprocess.Popen[bytes] | None" = None

    def __enter__(self) -> "Guest":
        """Returns when it waits for its first burst."""
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
        """To the people whose numbers are in the file; seconds. Raises GuestFailed unless it reached each just once."""
        assert self.process is not None
        assert self.process.stdin is not None
        question = json.dumps({"people": str(people), "burst": burst}) + "\n"
        try:
            self.process.stdin.write(question.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise GuestFailed(f"It ended: {self._last_words()}") from None
        said = self._answer()
        if said["reached"] != count:
            raise GuestFailed(f"It reached {said['reached']:,} of {count:,} people.")
        return float(said["seconds"])

    def stop(self) -> None:
        """Nothing of it runs when this returns: a guest whose input ends ends its own children first."""
        if self.process is None:
            return
        with suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.process = None

    def _start(self) -> None:
        # Without the paths and settings of ours: it must find the packages of its own environment and no others.
        command = [str(self.python), "-E", "-s", "-W", "ignore", str(SERVE), self.place, str(self.socket)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
            )

    def _answer(self) -> dict[str, Any]:
        """An answer is one line, written at once."""
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWERS_WITHIN)
        if not ready:
            raise GuestFailed(f"It said nothing for {ANSWERS_WITHIN:g} s.")
        if not (line := self.process.stdout.readline()):
            raise GuestFailed(f"It ended: {self._last_words()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def _last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing."
