"""A running notifier as an outsider has it: one `notifier up` on a data folder, started, found and always stopped."""

import ctypes
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from notifier.config import Settings, environment_with
from notifier.devkit.cql_proxy import CqlProxy
from notifier.devkit.engines.cassandra import Sync
from notifier.devkit.engines.fleet import Fleet
from notifier.devkit.engines.reaper import watched
from notifier.devkit.tcp_proxy import Proxy
from notifier.domain.errors import NotRunning, Unavailable
from notifier.profiles import Profile
from notifier.profiles.data_folder import locked, writable

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


# The engines of a trial in the cluster profile: started in its folder, struck by its faults, gone with it.

SERVE_WITHIN = 90.0
"""Seconds from when they listen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """Struck by their names. Every method returns when the engine may answer again, and raises Environment."""

    fleet: Fleet
    sync: Sync
    proxies: Mapping[str, Proxy] = field(default_factory=dict)
    """Before those whose network is to fail."""

    def kill(self, name: str, away: float = 0.0) -> None:
        """And started again after so many seconds: what its operators would do."""
        self.fleet.strike(self.sync, name, away)

    def freeze(self, name: str, seconds: float) -> None:
        self.fleet.freeze(name, seconds)

    def cut(self, name: str, seconds: float) -> None:
        self.proxies[name].cut(seconds)

    def slow(self, name: str, seconds: float, latency: float) -> None:
        self.proxies[name].slow(seconds, latency)

    def refuse(self, seconds: float) -> bool:
        """Cassandra alone, because no other proxy can read what it carries. False when nothing was asked meanwhile."""
        proxy = self.proxies["cassandra"]
        assert isinstance(proxy, CqlProxy)
        return proxy.refuse(seconds)


@contextmanager
def engines(
    data: Path, profile: str, sync: Sync, *, fresh: bool = False, proxied: Collection[str] = ()
) -> Iterator[Engines | None]:
    """None for the embedded profile, and where settings name engines that somebody else runs.

    What they have stored stays in the folder, unless it is to be fresh. Raises Environment or DataLocked.
    """
    settings = Settings.read(data=data, profile=profile)
    fleet = Fleet(folder=data / "services", cache=settings.jars.expanduser())
    if profile != "cluster" or (settings.kafka.servers and not fleet.note.exists()):
        yield None
        return
    if fresh:
        _forget(data, fleet)
    with ExitStack() as closing:
        proxies = {name: CqlProxy() if name == "cassandra" else Proxy() for name in proxied}
        for proxy in proxies.values():
            closing.callback(proxy.close)
        fleet = Fleet(
            folder=fleet.folder, cache=fleet.cache, fronts={name: proxy.port for name, proxy in proxies.items()}
        )
        closing.enter_context(watched(fleet.folder))
        closing.callback(fleet.down)
        fleet.up(sync, lambda engine, seconds: None)
        for name, proxy in proxies.items():
            one = fleet.standing()[name]
            proxy.upstream = (one.host, one.port)
        yield Engines(fleet=fleet, sync=sync, proxies=proxies)


def _forget(data: Path, fleet: Fleet) -> None:
    writable(data / "run")
    with locked(data / "run" / "lock"):
        fleet.down()
        shutil.rmtree(fleet.folder, ignore_errors=True)


def migrate_patiently(profile: Profile) -> None:
    """Migrate once the engines serve: on a busy machine a broker that listens refuses its first clients for a while."""
    deadline = time.monotonic() + SERVE_WITHIN
    while True:
        try:
            profile.migrate()
            return
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
