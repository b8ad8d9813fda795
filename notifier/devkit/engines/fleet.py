"""The fleet: Kafka, Cassandra and Valkey in one folder, as processes that outlive whoever started them."""

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
from notifier.devkit.engines.engine import READY_WITHIN, STOPS_WITHIN, Engine, free_port, listens
from notifier.devkit.engines.kafka import broker
from notifier.devkit.engines.valkey import server
from notifier.domain.errors import Environment

ENGINES = ("kafka", "cassandra", "valkey")
LOOKS_EVERY = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecord:
    """An engine as the folder remembers it."""

    name: str
    address: str
    url: str = ""
    """With its password; only where it has one."""
    pid: int | None = None
    """None: it was stopped. One that died keeps its number; `runs` tells."""

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
    """Where the jars are kept, for every folder."""
    fronts: Mapping[str, int] = field(default_factory=dict)
    """Ports of what stands before an engine on the loopback, for trials: the settings name it instead, and Kafka, which
    tells its clients where it is, tells them of it."""

    @property
    def note(self) -> Path:
        return self.folder / "services.json"

    @property
    def settings(self) -> Path:
        """The cluster profile finds it there by itself."""
        return self.folder / "settings.toml"

    def standing(self) -> Mapping[str, EngineRecord]:
        """Of every engine that was ever started here."""
        if not self.note.exists():
            return {}
        return {name: EngineRecord(**value) for name, value in json.loads(self.note.read_text()).items()}

    def runs(self, name: str) -> bool:
        one = self.standing().get(name)
        return one is not None and one.pid is not None and self._ours(one.pid)

    def syncs(self, sync: Sync) -> bool:
        """Whether Cassandra keeps its log so; what it was started with holds until it is stopped."""
        return f"commitlog_sync: {sync}\n" in (self.folder / "cassandra" / "cassandra.yaml").read_text()

    def up(self, sync: Sync, told: Callable[[EngineRecord, float], None]) -> int:
        """Starts those that don't run, side by side; tells of each that answers, with the seconds it took; how many.

        Raises Environment. Who is cut off in between starts again: each engine is noted as soon as it has a process.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        began = monotonic()
        with self._alone():
            starting = list(self._start(sync))
        for engine in starting:
            engine.ready()
            told(self.standing()[engine.folder.name], monotonic() - began)
        self._await_others(began + READY_WITHIN)
        return len(starting)

    def down(self, within: float = STOPS_WITHIN) -> None:
        """Asks all of them to stop, and kills who takes too long. What they have stored stays."""
        running = {name: one.pid for name, one in self.standing().items() if one.pid and self._ours(one.pid)}
        for pid in running.values():
            _signal(pid, signal.SIGTERM)
        deadline = monotonic() + within
        for name, pid in running.items():
            while self._ours(pid) and monotonic() < deadline:
                sleep(LOOKS_EVERY)
            if self._ours(pid):
                _signal(pid, signal.SIGKILL)
            self._remember(name, pid=None)

    def strike(self, sync: Sync, name: str, away: float = 0.0) -> None:
        """Kills it in the middle of whatever it does, and starts it again, after so many seconds."""
        one = self.standing()[name]
        if one.pid is not None and self._ours(one.pid):
            _signal(one.pid, signal.SIGKILL)
            self._await_end(one, one.pid)
        sleep(away)
        self.up(sync, lambda engine, seconds: None)

    def freeze(self, name: str, seconds: float) -> None:
        """It keeps its connections and answers nobody for so long."""
        one = self.standing()[name]
        if one.pid is None or not self._ours(one.pid):
            raise Environment(f"{name} doesn't run.")
        _signal(one.pid, signal.SIGSTOP)
        try:
            sleep(seconds)
        finally:
            _signal(one.pid, signal.SIGCONT)

    def _await_end(self, one: EngineRecord, pid: int) -> None:
        """A process that ends loses its name first, and its port some time later: with much memory, after seconds."""
        deadline = monotonic() + STOPS_WITHIN
        while self._ours(pid) or (listens(one.host, one.port) and monotonic() < deadline):
            sleep(LOOKS_EVERY)

    def _await_others(self, deadline: float) -> None:
        """Of those that ran already one may have been started a moment ago, by somebody else."""
        for name, one in self.standing().items():
            while not listens(one.host, one.port):
                if not self.runs(name) or monotonic() > deadline:
                    raise Environment(f"{name} doesn't listen at {one.address}; its log is in {self.folder / name}.")
                sleep(LOOKS_EVERY)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Two who start at once start each engine once."""
        with (self.folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _start(self, sync: Sync) -> Iterator[Engine]:
        for name in ENGINES:
            if not self.runs(name):
                engine = self._engine(name, sync)
                engine.start()
                self._remember(name, pid=engine.pid)
                yield engine

    def _engine(self, name: str, sync: Sync) -> Engine:
        """On the port that it had before, so that whoever knew it finds it again."""
        before = self.standing().get(name)
        port = before.port if before else free_port()
        folder = (self.folder / name).absolute()
        match name:
            case "kafka":
                engine, url = broker(folder, self.cache, port=port, front=self.fronts.get(name)), ""
            case "cassandra":
                engine, url = node(folder, self.cache, port=port, sync=sync), ""
            case _:
                # The same as before, too: those who go on have no other.
                password = (before and urlsplit(before.url).password) or secrets.token_urlsafe(24)
                engine, url = server(folder, port=port, password=password), f"redis://:{password}@127.0.0.1:{port}"
        self._write({**self.standing(), name: EngineRecord(name=name, address=engine.address, url=url)})
        return engine

    def _remember(self, name: str, pid: int | None) -> None:
        known = self.standing()
        one = known[name]
        self._write({**known, name: EngineRecord(name=name, address=one.address, url=one.url, pid=pid)})

    def _write(self, known: Mapping[str, EngineRecord]) -> None:
        """Also as settings of whoever uses them."""
        _put(self.note, json.dumps({name: asdict(one) for name, one in known.items()}, indent=2))
        if known.keys() >= set(ENGINES):
            _put(self.settings, _settings(known, self.fronts))

    def _ours(self, pid: int) -> bool:
        """Whether the process is an engine of this folder: a number may be somebody else's by now."""
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # of our own child: else it would stay a zombie, and zombies have a number
        said = subprocess.run(["ps", "-ww", "-p", str(pid), "-o", "args="], capture_output=True, text=True, check=False)
        return str(self.folder.absolute()) in said.stdout


def _put(file: Path, text: str) -> None:
    """There are passwords in it: ours alone to read, and never half of it."""
    new = file.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(text)
    new.replace(file)


def _settings(known: Mapping[str, EngineRecord], fronts: Mapping[str, int]) -> str:
    ports = {name: fronts.get(name, one.port) for name, one in known.items()}
    kafka, cassandra, valkey = (known[name] for name in ENGINES)
    return f"""\
# Where the engines are that `notifier services up` started; written anew by each start.
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
