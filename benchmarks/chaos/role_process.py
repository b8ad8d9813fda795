"""One role process of another instance, as in `notifier up`, but without a supervisor."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from notifier.config import environment_with
from notifier.devkit.check.notifier_and_engine_processes import end_with_parent

END_TIMEOUT_SECONDS = 15.0


@dataclass(slots=True, kw_only=True)
class Role:
    arguments: Sequence[str]
    data: Path
    environment: Mapping[str, str]
    clock: timedelta = timedelta(0)
    """How far its clock is ahead."""
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def log(self) -> Path:
        return self.data / "role.log"

    def start(self) -> None:
        program = (
            ["tests.support.run_role_with_skewed_clock", str(self.clock.total_seconds())]
            if self.clock
            else ["notifier"]
        )
        command = [sys.executable, "-m", *program, *self.arguments, "--data", str(self.data)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment_with(self.environment),
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call without a lock
            )

    def end(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(END_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ended(self, within: float) -> int | None:
        """Return its exit code, or None while it runs."""
        assert self.process is not None
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            return None

    def output(self) -> str:
        return self.log.read_text(errors="replace")
