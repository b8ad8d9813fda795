"""Runs `notifier demo` as a process and measures the time until its page answers."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from notifier.api.demo.traffic import STORM_CELEBRITIES
from notifier.config import environment_without_settings
from notifier.devkit.check.http_client import HttpClient, HttpResponse, get_patiently
from notifier.devkit.check.notifier_and_engine_processes import end_with_parent
from notifier.domain.errors import NotRunning
from notifier.domain.ids import BurstKey, Kind, Subject

STARTS_WITHIN, LOADED_WITHIN, ENDS_WITHIN = 120.0, 120.0, 60.0
"""Seconds; they only end a demo that hangs, because the benchmark judges how soon it starts.

A start takes 4 s on an idle machine, and took more than 40 s on two cores with a load of 20.
"""
POLL_INTERVAL_SECONDS = 0.01
GREETING = re.compile(r"^The demo is at (\S+) after .*, (being loaded.*|unchanged since the last run)$", re.MULTILINE)
FIRST_CELEBRITY = Subject(Kind.MENTION, STORM_CELEBRITIES[0])
TOKEN = re.compile(r'name="demo-token" content="([^"]+)"')


@dataclass(slots=True, kw_only=True)
class Demo:
    """A demo that ends as by Ctrl-C. Its folder is kept, and a second demo on the folder continues from it."""

    data: Path
    arguments: Sequence[str] = ()
    """Further arguments of the command."""
    process: "subprocess.Popen[bytes] | None" = None
    url: str = ""
    ready_s: float = 0.0
    """Seconds from its start until its page answered at the printed address."""
    kept_users: bool = False
    """Whether it reported that it kept the users of an earlier start."""
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
            raise NotRunning(f"The demo ended with exit code {code}: {self._log_tail()}")

    def wait_until_loaded(self) -> None:
        """Wait until the whole world is loaded."""
        self._until(LOADED_WITHIN, (self.data / "demo.json").exists, "its world isn't whole")

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def bursts(self) -> list[str]:
        """Return the burst ids in the inbox of the first of the four people, newest first.

        Raises NotRunning if the inbox can't be read: a failed request is not an empty inbox.
        """
        page = self._inbox()
        if page.status != 200:
            raise NotRunning(f"GET /v1/inbox of the demo returned status {page.status}: {self._log_tail()}")
        return [item["burst"] for item in page.body["items"]]

    def wait_until_delivered(self) -> None:
        """Wait until the star's first burst has no work left and the first person's inbox shows it."""
        self._until(LOADED_WITHIN, lambda: self._is_finished() and self._shown(), "its first burst isn't delivered")

    def _start(self) -> None:
        command = [sys.executable, "-m", "notifier", "demo", "--keep", str(self.data), "--port", "0", "--no-open"]
        began = time.monotonic()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment_without_settings(),
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
            )
        self._until(STARTS_WITHIN, self._answers, "its page isn't there")
        self.ready_s = time.monotonic() - began

    def _answers(self) -> bool:
        greeting = GREETING.search(self.output())
        if greeting is None:
            return False
        self.url, self.kept_users = greeting[1], greeting[2] == "unchanged since the last run"
        try:
            # Ask an address of this machine directly, whatever proxy is set.
            with build_opener(ProxyHandler({})).open(self.url, timeout=STARTS_WITHIN) as response:
                token = TOKEN.search(response.read().decode())
        except OSError:
            return False
        self.token = token[1] if token else ""
        return bool(token)

    def _is_finished(self) -> bool:
        """Whether the overview shows a finished burst of the star.

        From its start on, the API mentions an account without followers once a second. Until the world is loaded, the
        overview shows such a burst, which is finished at once and reaches none of the four users.
        """
        system = self._ask(self.token, "/v1/system")
        running = system.body["running"] if system.status == 200 else None
        return (
            running is not None and running["finished"] and BurstKey.parse(running["burst"]).subject == FIRST_CELEBRITY
        )

    def _shown(self) -> bool:
        page = self._inbox()
        # A list may lack a burst for two seconds after it opened. The first burst of a small world is finished sooner.
        return page.status == 200 and any(item["subject"] == str(FIRST_CELEBRITY) for item in page.body["items"])

    def _inbox(self) -> HttpResponse:
        people = self._ask(self.token, "/demo/people")
        return self._ask(people.body["people"][0]["token"], "/v1/inbox") if people.status == 200 else people

    def _ask(self, bearer: str, path: str) -> HttpResponse:
        client = HttpClient(url=self.url, bearer=bearer)
        try:
            return get_patiently(client, path)
        finally:
            client.close()

    def _until(self, within: float, condition: Callable[[], bool], missing: str) -> None:
        assert self.process is not None
        deadline = time.monotonic() + within
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise NotRunning(f"The demo has ended, or {missing} after {within:g} s: {self._log_tail()}")
            time.sleep(POLL_INTERVAL_SECONDS)

    def _end(self) -> int | None:
        """End the demo and all its processes, and return the exit code."""
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
        """Log file, outside of the folder, which must be empty at the start."""
        return self.data.with_name(f"{self.data.name}.log")

    def _log_tail(self) -> str:
        return " / ".join(self.output().splitlines()[-5:])
