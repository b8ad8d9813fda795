"""The log on a broker that dies: acknowledged records survive, and calls are bounded."""

import time
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
from notifier.devkit.engines.engine_process import Engine, free_port
from notifier.devkit.engines.kafka import broker
from notifier.devkit.engines.maven import missing_tools
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log_and_dead_letters import Record
from notifier.topics import MENTIONS
from tests.contracts.event_log_backends import KafkaLogs, in_kafka
from tests.services.wait_for_engine_change import wait_until

GIVES_UP_WITHIN = 10.0
"""Seconds; the log gives up after three, and a busy machine takes longer."""
KILLS = 2
ACKNOWLEDGED_BETWEEN = 200
"""Records that the broker acknowledges before each kill and after the last one, however long a busy machine takes."""
pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"Kafka needs Java and Maven; not found: {', '.join(missing_tools())}"
    ),
]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = broker(tmp_path, Settings.read().jars.expanduser(), port=free_port())
    engine.start()
    try:
        engine.wait_until_ready()
        yield engine
    finally:
        engine.kill()


@pytest.fixture
def logs(engine: Engine) -> Iterator[KafkaLogs]:
    with in_kafka(engine.address) as logs:
        yield logs


def record(text: str) -> Record:
    return Record(stream=MENTIONS, key=text, value=text.encode())


def restart(engine: Engine) -> None:
    engine.start()
    engine.wait_until_ready()


@pytest.mark.prove
def test_append_is_refused_in_time_while_broker_is_down(engine: Engine, logs: KafkaLogs) -> None:
    logs.log.append([record("before")])
    engine.kill()
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(LogUnavailable):
            logs.log.append([record("while it is away")])
        assert time.monotonic() - began < GIVES_UP_WITHIN
    restart(engine)
    append_until_accepted(logs, record("after"))


@pytest.mark.prove
def test_frozen_broker_bounds_appends(engine: Engine, logs: KafkaLogs) -> None:
    logs.log.append([record("before")])
    engine.freeze()
    began = time.monotonic()
    with pytest.raises(LogUnavailable):
        logs.log.append([record(f"while it sleeps {n}") for n in range(MAX_IN_FLIGHT + 1)])
    assert time.monotonic() - began < GIVES_UP_WITHIN
    engine.resume()
    append_until_accepted(logs, record("after"))


def waiting_keys(logs: KafkaLogs, within: float = 60.0) -> set[str]:
    """Return the waiting keys. On a busy machine, a restarted broker takes time to answer."""
    deadline = time.monotonic() + within
    while True:
        try:
            return {logged.record.key for logged in logs.log.read_uncommitted(MENTIONS, "router", 1_000_000)}
        except LogUnavailable:
            if time.monotonic() > deadline:
                raise


def test_acknowledged_records_survive_broker_kills(engine: Engine, logs: KafkaLogs) -> None:
    acknowledged: list[str] = []
    stop = Signal()

    def send() -> None:
        for number in count():
            if stop.is_set():
                return
            try:
                logs.log.append([record(f"r{number}")])
                acknowledged.append(f"r{number}")
            except LogUnavailable:
                continue

    sender = Thread(target=send)
    sender.start()
    try:
        for kill in range(KILLS):
            wait_until(partial(has_at_least, acknowledged, (kill + 1) * ACKNOWLEDGED_BETWEEN))
            engine.kill()
            restart(engine)
        wait_until(partial(has_at_least, acknowledged, (KILLS + 1) * ACKNOWLEDGED_BETWEEN))
    finally:
        stop.set()
        sender.join()
    waiting = waiting_keys(logs)
    assert set(acknowledged) <= waiting
    reader = logs.subscribe(MENTIONS, "router", "one")
    keys_read: set[str] = set()
    deadline = time.monotonic() + 30
    while not set(acknowledged) <= keys_read and time.monotonic() < deadline:
        keys_read |= {logged.record.key for logged in reader.poll(500, timedelta(seconds=1))}
    assert set(acknowledged) <= keys_read


def has_at_least(acknowledged: Sequence[str], least: int) -> bool:
    return len(acknowledged) >= least


def append_until_accepted(logs: KafkaLogs, record: Record) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            return logs.log.append([record])
        except LogUnavailable:
            assert time.monotonic() < deadline, "the broker never came back"
