"""Appends that fail are refused in time, and accepted again after recovery."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from notifier.adapters.kafka import Access, KafkaLog, admin_client, migrate, pending_migration_steps
from notifier.config import Settings
from notifier.devkit.engines.engine_process import Engine, free_port
from notifier.devkit.engines.kafka import brokers
from notifier.devkit.engines.maven import missing_tools
from notifier.domain.errors import LogUnavailable, Poison
from notifier.ports.event_log_and_dead_letters import Record
from notifier.topics import MENTIONS
from tests.services.wait_for_engine_change import wait_until

GIVES_UP_WITHIN = 10.0
"""Seconds; the log gives up after three, and a busy machine takes longer."""
MAX_CPU_SECONDS = 1.0
"""A client that loops uses all of the three seconds."""
SMALL = [Record(stream=MENTIONS, key="a", value=b"a")]
LARGE = [Record(stream=MENTIONS, key="a", value=bytes(2_000_000))]
"""More than a broker accepts by default."""

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"Kafka needs Java and Maven; not found: {', '.join(missing_tools())}"
    ),
]


@pytest.fixture
def three_brokers(tmp_path: Path) -> Iterator[list[Engine]]:
    engines = brokers(tmp_path, Settings.read().jars.expanduser(), [free_port() for _ in range(3)])
    with ExitStack() as stack:
        for engine in engines:
            engine.start()
            stack.callback(engine.kill)
        for engine in engines:
            engine.wait_until_ready()
        yield engines


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "no.such.host.invalid:9092"])
def test_unreachable_broker_bounds_every_thread(servers: str) -> None:
    before = {*threading.enumerate()}
    log = KafkaLog(Access(servers=servers))
    durations: list[float] = []
    threads = [threading.Thread(target=lambda: durations.append(time_to_refusal(log))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert len(durations) == len(threads)
    assert max(durations) < GIVES_UP_WITHIN
    assert {*threading.enumerate()} <= before


def test_oversized_record_is_poison_and_next_is_accepted(access: Access) -> None:
    log = KafkaLog(access)
    with pytest.raises(Poison, match="larger than the log accepts"):
        log.append(LARGE)
    log.append(SMALL)
    log.close()


def test_recreated_topic_accepts_records_again(access: Access) -> None:
    log = KafkaLog(access)
    log.append(SMALL)
    with admin_client(access) as admin:
        admin.delete_topics([access.topic(MENTIONS)])
    wait_until(lambda: f"create {MENTIONS}" in pending_migration_steps(access))
    cpu_before = time.process_time()
    assert time_to_refusal(log) < GIVES_UP_WITHIN
    assert time.process_time() - cpu_before < MAX_CPU_SECONDS
    assert migrate(access) == 1
    wait_until_accepted(log)
    log.close()


@pytest.mark.timeout(180)
@pytest.mark.prove
def test_append_is_refused_while_too_few_replicas_run(three_brokers: list[Engine]) -> None:
    access = Access(servers=",".join(engine.address for engine in three_brokers))
    wait_until(lambda: succeeds(lambda: migrate(access)))
    log = KafkaLog(access)
    log.append(SMALL)
    for engine in three_brokers[1:]:
        engine.kill()
    assert time_to_refusal(log) < GIVES_UP_WITHIN
    three_brokers[1].start()
    three_brokers[1].wait_until_ready()
    wait_until_accepted(log)
    log.close()


def time_to_refusal(log: KafkaLog) -> float:
    began = time.monotonic()
    with pytest.raises(LogUnavailable):
        log.append(SMALL)
    return time.monotonic() - began


def wait_until_accepted(log: KafkaLog) -> None:
    wait_until(lambda: succeeds(lambda: log.append(SMALL)))


def succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except LogUnavailable:
        return False
    return True
