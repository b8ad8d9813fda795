"""A running notifier as an outsider has it: one `notifier up` on a data folder, started, found and always stopped."""

import ctypes
import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from notifier.config import environment_with
from notifier.domain.errors import NotRunning

STARTS_WITHIN = 120.0
STOPS_WITHIN = 15.0
"""Seconds."""
LOOKS_EVERY = 0.02
PR_SET_PDEATHSIG = 1
UNLIMITED = {"NOTIFIER_LIMITS_READS": "0", "NOTIFIER_LIMITS_WRITES": "0"}
"""One person stands for thousands where something is measured."""


@dataclass(slots=True, kw_only=True)
class Instance:
    data: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Settings, as NOTIFIER_THRESHOLD and the like."""
    process: "subprocess.Popen[bytes] | None" = None
    url: str = ""
    """As it was at the last start; stays the same while its processes come and go."""
    service_key: str = ""

    @property
    def ready_file(self) -> Path:
        return self.data / "instance.json"

    @property
    def log(self) -> Path:
        return self.data / "instance.log"

    def __enter__(self) -> "Instance":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when it can be used. Raises NotRunning with the end of its log."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "notifier", "up", "--data", str(self.data), "--port", "0"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--ready-file", str(self.ready_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment_with({**UNLIMITED, **self.environment}),
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Nothing of it runs when it returns: its children end with it."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def pids(self) -> Mapping[str, int]:
        """By role, as they are now; empty while it starts or stops."""
        return dict(self._ready().get("pids", {}))

    def workers(self, pool: str) -> Mapping[str, int]:
        """Of the pool, by role: `p1`, and `p1-2` where it has two processes."""
        return {role: pid for role, pid in self.pids().items() if role.partition("-")[0] == pool}

    def pid(self, role: str) -> int | None:
        return self.pids().get(role)

    def _wait(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + STARTS_WITHIN
        while not (ready := self._ready()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise NotRunning(f"It did not start; its log ends so: {self._last_words()}")
            time.sleep(LOOKS_EVERY)
        self.url, self.service_key = ready["url"], ready["service_key"]

    def _ready(self) -> dict[str, Any]:
        try:
            found = json.loads(self.ready_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _last_words(self) -> str:
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-5:])


def end_with_parent() -> None:
    """Whatever ends a demo or a benchmark ends what it started."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
