"""The log on a real broker that dies: nothing that was acknowledged is lost, and nobody waits for long."""

import gc
import time
import warnings
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event as Signal
from threading import Thread

import pytest

from notifier.adapters.kafka.producer import MAX_IN_FLIGHT
from notifier.config import Settings
from notifier.devkit.engines.engine import Engine, free_port
from notifier.devkit.engines.kafka import broker
from notifier.devkit.engines.maven import missing
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Record
from notifier.topics import MENTIONS
from tests.contracts.logs import InKafka, in_kafka
from tests.services.waiting import until

BOUNDED = 4.0
"""Seconds; the log gives up after three."""
KILLS = 2
TAKEN_BETWEEN = 200
"""Records that the broker acknowledges before each kill and after the last one, however long a busy machine takes."""
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(missing()), reason=f"Kafka needs Java and Maven; not found: {', '.join(missing())}"),
]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    found = broker(tmp_path, Settings.read().jars.expanduser(), port=free_port())
    found.start()
    try:
        found.ready()
        yield found
    finally:
        found.kill()


@pytest.fixture
def logs(engine: Engine) -> Iterator[InKafka]:
    with in_kafka(engine.address) as found:
        yield found


@pytest.fixture(autouse=True, scope="module")
def swept() -> Iterator[None]:
    """The library leaves the sockets of connections that were refused to the garbage collector, which says so."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def record(text: str) -> Record:
    return Record(stream=MENTIONS, key=text, value=text.encode())


def back(engine: Engine) -> None:
    engine.start()
    engine.ready()


def test_while_the_broker_is_away_an_append_is_refused_in_time_and_later_taken(engine: Engine, logs: InKafka) -> None:
    logs.log.append([record("before")])
    engine.kill()
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(LogUnavailable):
            logs.log.append([record("while it is away")])
        assert time.monotonic() - began < BOUNDED
    back(engine)
    until_taken(logs, record("after"))


def test_a_broker_that_is_stopped_holds_nobody_up_for_long(engine: Engine, logs: InKafka) -> None:
    logs.log.append([record("before")])
    engine.freeze()
    began = time.monotonic()
    with pytest.raises(LogUnavailable):
        logs.log.append([record(f"while it sleeps {n}") for n in range(MAX_IN_FLIGHT + 1)])
    assert time.monotonic() - began < BOUNDED
    engine.wake()
    until_taken(logs, record("after"))


def waiting_once_the_broker_answers(logs: InKafka, within: float = 60.0) -> set[str]:
    """On a busy machine a broker that was just started again takes its time."""
    deadline = time.monotonic() + within
    while True:
        try:
            return {one.record.key for one in logs.log.waiting(MENTIONS, "router", 1_000_000)}
        except LogUnavailable:
            if time.monotonic() > deadline:
                raise


def test_what_was_acknowledged_is_read_however_often_the_broker_is_killed(engine: Engine, logs: InKafka) -> None:
    taken: list[str] = []
    over = Signal()

    def send() -> None:
        for number in count():
            if over.is_set():
                return
            try:
                logs.log.append([record(f"r{number}")])
                taken.append(f"r{number}")
            except LogUnavailable:
                continue

    sender = Thread(target=send)
    sender.start()
    try:
        for kill in range(KILLS):
            until(partial(enough, taken, (kill + 1) * TAKEN_BETWEEN))
            engine.kill()
            back(engine)
        until(partial(enough, taken, (KILLS + 1) * TAKEN_BETWEEN))
    finally:
        over.set()
        sender.join()
    found = waiting_once_the_broker_answers(logs)
    assert len(taken) > 100
    assert set(taken) <= found
    reader = logs.subscribe(MENTIONS, "router", "one")
    read: set[str] = set()
    deadline = time.monotonic() + 30
    while not set(taken) <= read and time.monotonic() < deadline:
        read |= {one.record.key for one in reader.poll(500, timedelta(seconds=1))}
    assert set(taken) <= read


def enough(taken: Sequence[str], many: int) -> bool:
    return len(taken) >= many


def until_taken(logs: InKafka, one: Record) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            return logs.log.append([one])
        except LogUnavailable:
            assert time.monotonic() < deadline, "it never came back"
