"""Runs `notifier up` and its engines as child processes of a check or a benchmark."""

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
from notifier.devkit.engines.reaper import reaping
from notifier.devkit.tcp_proxy import TcpProxy
from notifier.domain.errors import NotRunning, Unavailable
from notifier.profiles import Profile
from notifier.profiles.data_folder_and_instance_name import locked, require_writable

START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 15.0
POLL_INTERVAL_SECONDS = 0.02
PR_SET_PDEATHSIG = 1
NO_REQUEST_LIMITS = {"NOTIFIER_LIMITS_READS": "0", "NOTIFIER_LIMITS_WRITES": "0"}
"""Settings without request limits: one user of a check or benchmark sends the requests of thousands."""


@dataclass(slots=True, kw_only=True)
class Instance:
    """A running `notifier up` on one data folder."""

    data: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Settings, as NOTIFIER_ variables."""
    process: "subprocess.Popen[bytes] | None" = None
    url: str = ""
    """URL since the last start."""
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
        """Start the instance and wait until it is ready. Raises NotRunning with the end of its log."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "notifier", "up", "--data", str(self.data), "--port", "0"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--ready-file", str(self.ready_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment_with({**NO_REQUEST_LIMITS, **self.environment}),
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the instance and wait for its end. Kill it if that takes too long."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def pids(self) -> Mapping[str, int]:
        """Return the current pids by process name; empty until the instance is ready."""
        return dict(self._ready_file_content().get("pids", {}))

    def workers(self, pool: str) -> Mapping[str, int]:
        """Return the pids of the pool's workers by process name: `p1`, and `p1-2` for a second process."""
        return {name: pid for name, pid in self.pids().items() if name.partition("-")[0] == pool}

    def pid(self, process_name: str) -> int | None:
        return self.pids().get(process_name)

    def _wait(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not (ready := self._ready_file_content()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise NotRunning(f"`notifier up` did not start. End of its log: {self._last_log_lines()}")
            time.sleep(POLL_INTERVAL_SECONDS)
        self.url, self.service_key = ready["url"], ready["service_key"]

    def _ready_file_content(self) -> dict[str, Any]:
        try:
            content = json.loads(self.ready_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def _last_log_lines(self) -> str:
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-5:])


def end_with_parent() -> None:
    """Let the kernel terminate this process when its parent dies (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


# Engines of a check in the cluster profile. They run in the data folder of the check, and end with the check.

SERVE_TIMEOUT_SECONDS = 90.0
"""Time limit until engines that listen serve requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """Fault injection into engines, by name. Methods return once the fault is over."""

    fleet: Fleet
    sync: Sync
    proxies: Mapping[str, TcpProxy] = field(default_factory=dict)
    """Proxies in front of engines, by engine name. They inject network faults and refusals."""

    def kill(self, name: str, downtime: float = 0.0) -> None:
        """Kill an engine and restart it after `downtime` seconds."""
        self.fleet.restart(self.sync, name, downtime)

    def freeze(self, name: str, seconds: float) -> None:
        self.fleet.freeze(name, seconds)

    def cut(self, name: str, seconds: float) -> None:
        self.proxies[name].cut(seconds)

    def slow(self, name: str, seconds: float, latency: float) -> None:
        self.proxies[name].slow(seconds, latency)

    def refuse(self, seconds: float) -> bool:
        """Inject errors into statements to Cassandra. Return whether a statement failed."""
        proxy = self.proxies["cassandra"]
        assert isinstance(proxy, CqlProxy)
        return proxy.refuse(seconds)


@contextmanager
def engines(
    data: Path, profile: str, sync: Sync, *, fresh: bool = False, proxied: Collection[str] = ()
) -> Iterator[Engines | None]:
    """Run the engines of the cluster profile until the block ends.

    Yields None for the embedded profile, and if the settings name external engines. `fresh` deletes the data of earlier
    runs. The engines named in `proxied` get a proxy.
    """
    settings = Settings.read(data=data, profile=profile)
    fleet = Fleet(folder=data / "services", cache=settings.jars.expanduser())
    if profile != "cluster" or (settings.kafka.servers and not fleet.records_file.exists()):
        yield None
        return
    if fresh:
        _delete_data(data, fleet)
    with ExitStack() as stack:
        proxies = {name: CqlProxy() if name == "cassandra" else TcpProxy() for name in proxied}
        for proxy in proxies.values():
            stack.callback(proxy.close)
        fleet = Fleet(
            folder=fleet.folder, cache=fleet.cache, proxy_ports={name: proxy.port for name, proxy in proxies.items()}
        )
        stack.enter_context(reaping(fleet.folder))
        stack.callback(fleet.down)
        fleet.up(sync, lambda engine, seconds: None)
        for name, proxy in proxies.items():
            engine_record = fleet.records()[name]
            proxy.upstream = (engine_record.host, engine_record.port)
        yield Engines(fleet=fleet, sync=sync, proxies=proxies)


def _delete_data(data: Path, fleet: Fleet) -> None:
    require_writable(data / "run")
    with locked(data / "run" / "lock"):
        fleet.down()
        shutil.rmtree(fleet.folder, ignore_errors=True)


def migrate_patiently(profile: Profile) -> None:
    """Migrate, and retry until the engines serve requests. On a busy machine a new broker refuses its first clients."""
    deadline = time.monotonic() + SERVE_TIMEOUT_SECONDS
    while True:
        try:
            profile.migrate()
            return
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
