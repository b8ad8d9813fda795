"""`python -m benchmarks log`: records per second, client CPU time per record, and append latency.

Records have 300 bytes, about the size of an event. There is one broker.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.costs_and_figures import Cost, Figure, Spread, cost, ratio, unjudged
from benchmarks.fanout.suite import Parts
from benchmarks.kafka.clients import LeanestClient, LogClient, PortClient
from notifier import topics
from notifier.adapters.kafka import Access, KafkaLog, migrate
from notifier.config import Settings
from notifier.devkit.check.finding_and_quantiles import quantile
from notifier.devkit.engines.engine_process import free_port
from notifier.devkit.engines.kafka import broker
from notifier.devkit.engines.reaper import reaping
from notifier.ports.event_log_and_dead_letters import Record

VALUE = b"x" * 300
KEYS = 1_000
ROUNDS, ROUNDS_QUICK = 6, 2
RECORDS, RECORDS_QUICK = 40_000, 10_000
"""Records per turn."""
APPENDS, APPENDS_QUICK = 2_000, 300
WARM_UP_ROUNDS = 1
"""Rounds that are not counted."""


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    records, rounds = (RECORDS_QUICK, ROUNDS_QUICK) if quick else (RECORDS, ROUNDS)
    with _access(folder) as access, closing(KafkaLog(access)) as log, closing(LeanestClient(access)) as lean:
        clients: list[LogClient] = [PortClient(access, log), lean]
        tell("appends of one record")
        figures = _accepts(log, APPENDS_QUICK if quick else APPENDS)
        tell("writing")
        written = _turns(clients, rounds, lambda client, _: _write(client, records))
        tell("reading")
        lean.write(_records(topics.MENTIONS, 2 * records))
        read = _turns(clients, rounds, lambda client, number: _read(client, records, number))
    return [*figures, *_figures("produce", written, records), *_figures("consume", read, records)]


@contextmanager
def _access(folder: Path) -> Iterator[Access]:
    """Yield access to a broker with our topics.

    Raises UnusableEnvironment if Java is missing, or Maven is needed and missing.
    """
    engine = broker(folder.absolute() / "kafka", Settings.read().jars.expanduser(), port=free_port())
    with reaping(folder):
        try:
            engine.start()
            engine.wait_until_ready()
            access = Access(servers=engine.address)
            migrate(access)
            yield access
        finally:
            engine.kill()  # its data is not needed any more


def _records(stream: str, many: int) -> list[Record]:
    return [Record(stream=stream, key=f"mention:star{number % KEYS}", value=VALUE) for number in range(many)]


def _turns(
    clients: Sequence[LogClient], rounds: int, work: Callable[[LogClient, int], Cost]
) -> Mapping[str, Sequence[Cost]]:
    """Return the cost of each client's turns. The clients take turns, so that a busy machine slows them alike."""
    costs: dict[str, list[Cost]] = {client.name: [] for client in clients}
    for number in range(rounds + WARM_UP_ROUNDS):
        for place in range(len(clients)):
            client = clients[(number + place) % len(clients)]
            took = work(client, number)
            if number >= WARM_UP_ROUNDS:
                costs[client.name].append(took)
    return costs


def _write(client: LogClient, many: int) -> Cost:
    records = _records(topics.MENTIONS_STANDARD, many)
    return cost(lambda: client.write(records))


def _read(client: LogClient, many: int, number: int) -> Cost:
    """Measure from the first poll that returns records: joining a group takes seconds, and happens once per process."""
    group = f"bench-{client.name}-{number}"
    with closing(client.read(topics.MENTIONS, group)) as polls:
        while not next(polls):
            pass

        def read_rest() -> None:
            count = 0
            while count < many:
                count += next(polls)

        return cost(read_rest)


def _accepts(log: KafkaLog, many: int) -> list[Figure]:
    seconds = []
    for record in _records(topics.MENTIONS_CELEBRITY, many + many // 10):
        began = time.perf_counter()
        log.append([record])
        seconds.append((time.perf_counter() - began) * 1e3)
    measured = seconds[many // 10 :]
    spread = Spread.of(measured, "ms")
    return [unjudged(f"log_append_p{p}_ms", spread, many, value=quantile(measured, p / 100)) for p in (50, 99)]


def _figures(kind: str, costs_by_client: Mapping[str, Sequence[Cost]], records: int) -> list[Figure]:
    rates = {
        name: Spread.of([records / run_cost.seconds for run_cost in costs], "records/s")
        for name, costs in costs_by_client.items()
    }
    busy = {
        name: Spread.of([run_cost.processor / records * 1e6 for run_cost in costs], "us")
        for name, costs in costs_by_client.items()
    }
    n = len(costs_by_client["ours"])
    detail = "median, against the leanest loop with the same library"
    per_s = unjudged(f"log_per_s{{{kind}}}", rates["ours"], n, detail)
    us = unjudged(f"log_client_us{{{kind}}}", busy["ours"], n, detail)
    return [
        ratio(f"log_ratio{{{kind}}}", costs_by_client["ours"], costs_by_client["lean"], None, rows=records),
        replace(per_s, baseline=rates["lean"]),
        replace(us, baseline=busy["lean"]),
    ]


PARTS: Parts = {
    "records": (
        run,
        (
            "log_append_p50_ms",
            "log_append_p99_ms",
            *(
                f"log_{measure}{{{kind}}}"
                for kind in ("produce", "consume")
                for measure in ("ratio", "per_s", "client_us")
            ),
        ),
    ),
}
