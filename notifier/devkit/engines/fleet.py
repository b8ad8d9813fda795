"""Fleet of one Kafka, Cassandra and Valkey in one folder, as background processes."""

import fcntl
import json
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

from notifier.devkit.engines.cassandra import Sync, node
from notifier.devkit.engines.engine_process import (
    READY_TIMEOUT_SECONDS,
    STOP_TIMEOUT_SECONDS,
    Engine,
    free_port,
    is_listening,
    suspend,
)
from notifier.devkit.engines.kafka import broker
from notifier.devkit.engines.valkey import server
from notifier.domain.errors import UnusableEnvironment

ENGINES = ("kafka", "cassandra", "valkey")
POLL_INTERVAL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecord:
    """Address and process id of one engine, as stored in services.json."""

    name: str
    address: str
    url: str = ""
    """URL with the password; empty if the engine has none."""
    pid: int | None = None
    """None: the engine was not started, or `Fleet.down` stopped it. The record of an engine that died keeps the pid."""

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    folder: Path
    cache: Path
    """Folder of the jars, shared by all fleets."""
    proxy_ports: Mapping[str, int] = field(default_factory=dict)
    """Loopback ports of proxies for fault injection, by engine name. Clients get the ports of the proxies."""

    @property
    def records_file(self) -> Path:
        return self.folder / "services.json"

    @property
    def settings(self) -> Path:
        """Settings file that the cluster profile reads."""
        return self.folder / "settings.toml"

    def records(self) -> Mapping[str, EngineRecord]:
        """Return the records of all engines of this folder."""
        if not self.records_file.exists():
            return {}
        return {name: EngineRecord(**value) for name, value in json.loads(self.records_file.read_text()).items()}

    def is_running(self, name: str) -> bool:
        record = self.records().get(name)
        return record is not None and record.pid is not None and self._is_own_process(record.pid)

    def uses_sync(self, sync: Sync) -> bool:
        """Return whether Cassandra was last started with this commit log mode."""
        return f"commitlog_sync: {sync}\n" in (self.folder / "cassandra" / "cassandra.yaml").read_text()

    def up(self, sync: Sync, on_started: Callable[[EngineRecord, float], None]) -> int:
        """Start all stopped engines concurrently and return their number. Raises UnusableEnvironment.

        `on_started` is called for each of them once it is ready, with the seconds since the start of this call. An
        interrupted call can be repeated: each engine is recorded as soon as it has a process.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        started = monotonic()
        with self._locked():
            starting = list(self._start(sync))
        for engine in starting:
            engine.wait_until_ready()
            on_started(self.records()[engine.folder.name], monotonic() - started)
        self._await_others(started + READY_TIMEOUT_SECONDS)
        return len(starting)

    def down(self, timeout: float = STOP_TIMEOUT_SECONDS) -> None:
        """Stop all engines with SIGTERM, and kill those that take too long. Valkey loses its data."""
        running = {
            name: record.pid
            for name, record in self.records().items()
            if record.pid and self._is_own_process(record.pid)
        }
        for pid in running.values():
            _signal(pid, signal.SIGTERM)
        deadline = monotonic() + timeout
        for name, pid in running.items():
            while self._is_own_process(pid) and monotonic() < deadline:
                sleep(POLL_INTERVAL_SECONDS)
            if self._is_own_process(pid):
                _signal(pid, signal.SIGKILL)
            self._record_pid(name, pid=None)

    def restart(self, sync: Sync, name: str, downtime: float = 0.0) -> None:
        """Kill an engine and restart it after `downtime` seconds."""
        record = self.records()[name]
        if record.pid is not None and self._is_own_process(record.pid):
            _signal(record.pid, signal.SIGKILL)
            self._await_end(record, record.pid)
        sleep(downtime)
        self.up(sync, lambda engine, seconds: None)

    def freeze(self, name: str, seconds: float) -> None:
        """Suspend an engine for the given seconds. Its connections stay open."""
        record = self.records()[name]
        if record.pid is None or not self._is_own_process(record.pid):
            raise UnusableEnvironment(f"{name} is not running.")
        suspend(record.pid)
        try:
            sleep(seconds)
        finally:
            _signal(record.pid, signal.SIGCONT)

    def _await_end(self, record: EngineRecord, pid: int) -> None:
        """Wait until the process has ended, and at most STOP_TIMEOUT_SECONDS until its port is free."""
        deadline = monotonic() + STOP_TIMEOUT_SECONDS
        while self._is_own_process(pid) or (is_listening(record.host, record.port) and monotonic() < deadline):
            sleep(POLL_INTERVAL_SECONDS)

    def _await_others(self, deadline: float) -> None:
        """Wait until all engines listen, also those that another process has just started."""
        for name, record in self.records().items():
            while not is_listening(record.host, record.port):
                if not self.is_running(name) or monotonic() > deadline:
                    raise UnusableEnvironment(
                        f"{name} doesn't listen at {record.address}; its log is in {self.folder / name}."
                    )
                sleep(POLL_INTERVAL_SECONDS)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock, so that concurrent `up` calls start each engine once."""
        with (self.folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _start(self, sync: Sync) -> Iterator[Engine]:
        for name in ENGINES:
            if not self.is_running(name):
                engine = self._engine(name, sync)
                engine.start()
                self._record_pid(name, pid=engine.pid)
                yield engine

    def _engine(self, name: str, sync: Sync) -> Engine:
        """Create the engine on its previous port, so that clients find it again."""
        previous = self.records().get(name)
        port = previous.port if previous else free_port()
        folder = (self.folder / name).absolute()
        match name:
            case "kafka":
                engine, url = broker(folder, self.cache, port=port, proxy_port=self.proxy_ports.get(name)), ""
            case "cassandra":
                engine, url = node(folder, self.cache, port=port, sync=sync), ""
            case _:
                # Keep the password: running clients continue to use it.
                password = (previous and urlsplit(previous.url).password) or secrets.token_urlsafe(24)
                engine, url = server(folder, port=port, password=password), f"redis://:{password}@127.0.0.1:{port}"
        self._write({**self.records(), name: EngineRecord(name=name, address=engine.address, url=url)})
        return engine

    def _record_pid(self, name: str, pid: int | None) -> None:
        records = self.records()
        record = records[name]
        self._write({**records, name: EngineRecord(name=name, address=record.address, url=record.url, pid=pid)})

    def _write(self, records: Mapping[str, EngineRecord]) -> None:
        """Write the records, and the settings file once all engines are known."""
        _write_atomically(
            self.records_file, json.dumps({name: asdict(record) for name, record in records.items()}, indent=2)
        )
        if records.keys() >= set(ENGINES):
            _write_atomically(self.settings, _settings(records, self.proxy_ports))

    def _is_own_process(self, pid: int) -> bool:
        """Return whether the process is an engine of this folder. The pid may have been reused by another process."""
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # reap our own child: a zombie would keep its pid
        ps = subprocess.run(["ps", "-ww", "-p", str(pid), "-o", "args="], capture_output=True, text=True, check=False)
        return str(self.folder.absolute()) in ps.stdout


def _write_atomically(file: Path, text: str) -> None:
    """Write a file atomically, with mode 0600 because it contains passwords."""
    draft = file.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.replace(file)


def _settings(records: Mapping[str, EngineRecord], proxy_ports: Mapping[str, int]) -> str:
    ports = {name: proxy_ports.get(name, record.port) for name, record in records.items()}
    kafka, cassandra, valkey = (records[name] for name in ENGINES)
    return f"""\
# Addresses of the engines that `notifier services up` started. Every start rewrites this file.
redis_url = "{valkey.url.replace(f":{valkey.port}", f":{ports[valkey.name]}")}"

[kafka]
servers = "{kafka.host}:{ports[kafka.name]}"

[cassandra]
hosts = "{cassandra.host}"
port = {ports[cassandra.name]}
replicas = 1
"""


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
