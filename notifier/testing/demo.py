"""The demo as a user starts it: `notifier demo` in a process of its own, timed until its page answers."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from notifier.config import environment_without_settings
from notifier.domain.errors import NotRunning
from notifier.testing.instance import end_with_parent
from notifier.testing.wire import Answer, Wire

STARTS_WITHIN, WHOLE_WITHIN, ENDS_WITHIN = 40.0, 60.0, 20.0
"""Seconds, far beyond any limit: who waits for so long has failed."""
LOOKS_EVERY = 0.01
GREETING = re.compile(r"^The demo is at (\S+) after .*, (being loaded.*|as you left them)$", re.MULTILINE)
TOKEN = re.compile(r'name="demo-token" content="([^"]+)"')


@dataclass(slots=True, kw_only=True)
class Demo:
    """Ended as by Ctrl-C; its folder is kept, and a second one on it remembers."""

    data: Path
    words: Sequence[str] = ()
    """What a user would type besides."""
    process: "subprocess.Popen[bytes] | None" = None
    url: str = ""
    ready_s: float = 0.0
    """From its start until its page answered at the address that it printed."""
    remembers: bool = False
    """It said so."""
    token: str = ""

    def __enter__(self) -> "Demo":
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        code = self._end()
        if kind is None and code:
            raise NotRunning(f"The demo ended with exit code {code}: {self._last_words()}")

    def whole(self) -> None:
        """Returns when all its people are there."""
        self._until(WHOLE_WITHIN, (self.data / "demo.json").exists, "its world isn't whole")

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def bursts(self) -> list[str]:
        """What is in the inbox of the first of the four people, newest first."""
        people = self._ask(self.token, "/demo/people")
        page = self._ask(people.body["people"][0]["token"], "/v1/inbox") if people.status == 200 else people
        return [item["burst"] for item in page.body["items"]] if page.status == 200 else []

    def delivered(self) -> None:
        """Returns when the first burst has no work left; who starts a demo again is seldom faster."""
        self._until(WHOLE_WITHIN, self._settled, "its first burst isn't delivered")

    def _start(self) -> None:
        command = [sys.executable, "-m", "notifier", "demo", "--keep", str(self.data), "--port", "0", "--no-open"]
        began = time.monotonic()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *self.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment_without_settings(),
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
            )
        self._until(STARTS_WITHIN, self._answers, "its page isn't there")
        self.ready_s = time.monotonic() - began

    def _answers(self) -> bool:
        greeting = GREETING.search(self.said())
        if greeting is None:
            return False
        self.url, self.remembers = greeting[1], greeting[2] == "as you left them"
        try:
            # An address of this machine is asked for directly, whatever proxy there is.
            with build_opener(ProxyHandler({})).open(self.url, timeout=STARTS_WITHIN) as answer:
                found = TOKEN.search(answer.read().decode())
        except OSError:
            return False
        self.token = found[1] if found else ""
        return bool(found)

    def _settled(self) -> bool:
        system = self._ask(self.token, "/v1/system")
        return system.status == 200 and bool(system.body["running"]) and system.body["running"]["settled"]

    def _ask(self, bearer: str, path: str) -> Answer:
        wire = Wire(url=self.url, bearer=bearer)
        try:
            return wire.get(path)
        finally:
            wire.close()

    def _until(self, within: float, holds: Callable[[], bool], missing: str) -> None:
        assert self.process is not None
        deadline = time.monotonic() + within
        while not holds():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise NotRunning(f"The demo has ended, or {missing} after {within:g} s: {self._last_words()}")
            time.sleep(LOOKS_EVERY)

    def _end(self) -> int | None:
        """Its exit code; nothing of it runs when this returns."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    @property
    def _log(self) -> Path:
        """Beside the folder, which the demo wants to find empty."""
        return self.data.with_name(f"{self.data.name}.log")

    def _last_words(self) -> str:
        return " / ".join(self.said().splitlines()[-5:])
