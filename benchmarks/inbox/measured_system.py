"""The measured system: a loaded store, Redis, a running notifier, and the processes beside it."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

from benchmarks.inbox.breakable_valkey import BenchCache
from benchmarks.inbox.burst_history import BurstHistory
from benchmarks.inbox.cases import CONNECTIONS, Case
from benchmarks.inbox.figures import LoadReading, LoadSlice
from benchmarks.inbox.json_line_process import HelperProcess, LoadClient
from benchmarks.inbox.population import Loader, Population, mention_of
from benchmarks.inbox.request_files import PopulationRequests
from benchmarks.process_stats import allow_files, processor_s
from notifier.adapters.valkey.server import free_port
from notifier.config import Settings, environment_with
from notifier.devkit.check.check_run import Report
from notifier.devkit.check.http_client import HttpClient
from notifier.devkit.check.mention_storm import Tweet, request_body
from notifier.devkit.check.notifier_and_engine_processes import (
    NO_REQUEST_LIMITS,
    Engines,
    Instance,
    end_with_parent,
    engines,
)
from notifier.devkit.engines.cassandra import Sync
from notifier.devkit.engines.reaper import reaping
from notifier.devkit.fixture.world import user
from notifier.devkit.fixture.world_loader_and_markers import NO_ROLL_UP
from notifier.domain.errors import CacheUnavailable
from notifier.ports.all_ports import Ports
from notifier.profiles import Profile, choose

ENVIRONMENT = NO_ROLL_UP | {"NOTIFIER_COLLAPSE": "3600"}
"""With this collapse window all mentions of a subject in the benchmark join one burst."""
TIMEOUT_SECONDS = 60.0
"""Time limit until a role is back, or a mention is on a page."""
POLL_INTERVAL_SECONDS = 0.02
FILES = 3_000
"""Open files: a thousand connections in the API, and as many in the client."""


@dataclass(slots=True, kw_only=True)
class InboxStage:
    profile: str
    folder: Path
    population: Population
    settings: Settings
    chosen: Profile
    ports: Ports
    environment: Mapping[str, str]
    engines: Engines | None
    """Set in the cluster profile."""
    cache: BenchCache
    instance: Instance
    client: LoadClient
    files: PopulationRequests
    helpers: dict[str, HelperProcess] = field(default_factory=dict)
    """Servers beside the product, by name."""
    grown: int = 0
    """Number of mentions of the award show so far."""
    _next_user: dict[str, int] = field(default_factory=dict)

    def measure(self, case: Case, *, connections: int = CONNECTIONS, **job: object) -> LoadSlice:
        """Run one load of the case. Each load continues with the users after those of the previous load."""
        pid, before = self.pid(case), self.counters(case)
        busy, redis_busy = processor_s(pid), self._redis_processor_s()
        reading = self.load(case, connections=connections, **job)
        busy, redis_busy = processor_s(pid) - busy, self._redis_processor_s() - redis_busy
        after = self.counters(case)
        grown = {name: after[name] - before.get(name, 0.0) for name in after}
        return LoadSlice(reading=reading, processor_s=busy, counters=grown, redis_s=redis_busy)

    def _redis_processor_s(self) -> float:
        """Return the CPU seconds of the product's Redis, or 0 while it is down."""
        pid = self.cache.engine.pid
        return processor_s(pid) if pid else 0.0

    def load(self, case: Case, **job: object) -> LoadReading:
        first = self._next_user.get(case.requests, 0)
        reading = self.client.run(self.files.path(case.requests), self.port(case), **{"first": first, **job})
        self._next_user[case.requests] = first + reading.opens
        return reading

    def port(self, case: Case) -> int:
        if case.server == "product":
            return urlsplit(self.instance.url).port or 0
        return int(self.helpers[case.server].first)

    def pid(self, case: Case) -> int:
        return self.api() if case.server == "product" else self.helpers[case.server].pid

    def counters(self, case: Case) -> Mapping[str, float]:
        return read_counters(self.instance.url) if case.server == "product" else {}

    def api(self) -> int:
        """Return the API's process id, waiting while it starts. Raises TimeoutError."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (pid := self.instance.pid("api")) is None or not Path(f"/proc/{pid}").exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no API process after {TIMEOUT_SECONDS:g} s")
            time.sleep(POLL_INTERVAL_SECONDS)
        return pid

    def indexed(self) -> bool:
        """Wait until the pull index in Redis is complete. Return False if it isn't after a minute."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (whole := asyncio.run(self._pulled())) and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_SECONDS)
        return whole

    async def _pulled(self) -> bool:
        try:
            pulled = await self.chosen.read_ports().pull.read_newest([mention_of(self.population.award)])
            return pulled.complete_since is not None
        except CacheUnavailable:
            return False
        finally:
            await self.chosen.close_reads()

    def restart(self, **settings: str) -> None:
        """Restart the whole notifier with other settings in addition to its own."""
        self.instance.stop()
        self.instance.environment = {**self.environment, **settings}
        self.instance.start()

    @contextmanager
    def second_api(self) -> Iterator[int]:
        """Run another API process on the same services. Yields its port."""
        port, log = free_port("127.0.0.1"), self.folder / "second-api.log"
        command = [sys.executable, "-m", "notifier", "api", "--data", str(self.instance.data), "--port", str(port)]
        with log.open("ab") as log_file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                env=environment_with({**NO_REQUEST_LIMITS, **self.environment}),
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call without a lock
            )
        try:
            self._answers(f"http://127.0.0.1:{port}", process)
            yield port
        finally:
            process.terminate()
            process.wait(TIMEOUT_SECONDS)

    def _answers(self, url: str, process: "subprocess.Popen[bytes]") -> None:
        """Wait until the process answers. Raises TimeoutError."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        with closing(HttpClient(url=url, bearer=self.instance.service_key)) as wire:
            while process.poll() is None and time.monotonic() < deadline:
                if wire.get("/healthz").status == 200:
                    return
                time.sleep(POLL_INTERVAL_SECONDS)
        raise TimeoutError(f"the second API process does not answer, status {process.poll()}")

    def restart_api(self) -> None:
        """Replace the API's process. Return when the new one answers, which has served no user yet."""
        old = self.api()
        os.kill(old, signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        with closing(HttpClient(url=self.instance.url, bearer=self.instance.service_key)) as wire:
            while self.instance.pid("api") in (None, old) or wire.get("/healthz").status != 200:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the API is not back after {TIMEOUT_SECONDS:g} s")
                time.sleep(POLL_INTERVAL_SECONDS)

    def grow_award(self) -> None:
        """Mention the award show, which every user follows. Return when a page shows it. Raises TimeoutError."""
        self.grown += 1
        name = self.population.award
        tweet = Tweet(id=f"grown-{self.grown}", author=user(self.grown), mentioned=(name,), protected=False)
        body, content_type = request_body([tweet])
        deadline = time.monotonic() + TIMEOUT_SECONDS
        with (
            closing(HttpClient(url=self.instance.url, bearer=self.instance.service_key)) as wire,
            closing(HttpClient(url=self.instance.url, bearer=self.files.token("one", 0))) as reader,
        ):
            before = _count(reader)
            answer = wire.post("/v1/events", body, content_type)
            assert answer.status == 202, answer
            while _count(reader) == before:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the mention is on no page after {TIMEOUT_SECONDS:g} s")
                time.sleep(POLL_INTERVAL_SECONDS)


def _count(reader: HttpClient) -> tuple[int, int]:
    """Return the numbers of items and mentions of a user who follows only the award show."""
    answer = reader.get("/v1/inbox")
    items = answer.body["items"] if answer.status == 200 else []
    return len(items), sum(item["count"] for item in items)


@contextmanager
def staged(folder: Path, profile: str, population: Population, tell: Report) -> Iterator[InboxStage]:
    """Load the population into a new store and run a notifier on it until the block ends."""
    allow_files(FILES)
    data = folder / "data"
    data.mkdir(parents=True)
    with ExitStack() as stack:
        if profile == "cluster":
            tell("starting engines")
        fault_engines = stack.enter_context(engines(data, profile, Sync.PERIODIC))
        stack.enter_context(reaping(folder / "cache"))
        cache = BenchCache.started(folder / "cache")
        stack.callback(cache.engine.kill)
        settings = Settings.read(data=data, profile=profile, redis_url=cache.url)
        chosen = stack.enter_context(closing(choose(settings)))
        chosen.migrate()
        ports = chosen.ports()
        tell(f"loading {population.end:,} users and {population.subjects:,} subjects")
        fill(ports, population)
        environment = ENVIRONMENT | {"NOTIFIER_PROFILE": profile, "NOTIFIER_REDIS_URL": cache.url}
        tell("starting a notifier")
        stage = InboxStage(
            profile=profile,
            folder=folder,
            population=population,
            settings=settings,
            chosen=chosen,
            ports=ports,
            environment=environment,
            engines=fault_engines,
            cache=cache,
            instance=stack.enter_context(Instance(data=data, environment=environment)),
            client=LoadClient(stack.enter_context(LoadClient.new(folder).process)),
            files=PopulationRequests(
                folder=folder / "requests", population=population, settings=settings, now=ports.clock.now()
            ),
        )
        stage.grow_award()
        yield stage


def fill(ports: Ports, population: Population) -> None:
    """Load users and follows, then one or two bursts per subject."""
    Loader(population=population, ports=ports).load()
    accounts = population.accounts
    BurstHistory(ports=ports).write({mention_of(name): 1 + number % 2 for number, name in enumerate(accounts)})


# Counters of the product, read from /metrics as an operator does.

SAMPLE = re.compile(r"^(notifier_inbox_\w+_total)(?:\{[^}]*\})? (\S+)", re.MULTILINE)
METRICS_TIMEOUT_SECONDS = 30.0


def read_counters(url: str) -> Mapping[str, float]:
    """Return the read path's counters by name. Counters with labels are summed."""
    with urlopen(f"{url}/metrics", timeout=METRICS_TIMEOUT_SECONDS) as answer:
        return parsed(answer.read().decode())


def parsed(text: str) -> Mapping[str, float]:
    counters: dict[str, float] = {}
    for name, value in SAMPLE.findall(text):
        counters[name] = counters.get(name, 0.0) + float(value)
    return counters
