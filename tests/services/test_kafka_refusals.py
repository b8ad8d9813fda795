"""An append that can't be taken is refused in time, whatever is wrong, and taken again when it isn't any more."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from notifier.adapters.kafka import Access, KafkaLog, admin_client, migrate, pending
from notifier.config import Settings
from notifier.devkit.engines.engine import Engine, free_port
from notifier.devkit.engines.kafka import brokers
from notifier.devkit.engines.maven import missing
from notifier.domain.errors import LogUnavailable, Poison
from notifier.ports.event_log import Record
from notifier.topics import MENTIONS
from tests.services.waiting import until

BOUNDED = 4.0
"""Seconds; the log gives up after three."""
ONE = [Record(stream=MENTIONS, key="a", value=b"a")]
LARGE = [Record(stream=MENTIONS, key="a", value=bytes(2_000_000))]
"""More than a broker takes by default."""

pytestmark = pytest.mark.skipif(
    bool(missing()), reason=f"Kafka needs Java and Maven; not found: {', '.join(missing())}"
)


@pytest.fixture
def access(kafka: str) -> Access:
    found = Access(servers=kafka, prefix=f"t{uuid4().hex[:8]}.")
    migrate(found)
    return found


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Engine]]:
    engines = brokers(tmp_path, Settings.read().jars.expanduser(), [free_port() for _ in range(3)])
    with ExitStack() as stack:
        for engine in engines:
            engine.start()
            stack.callback(engine.kill)
        for engine in engines:
            engine.ready()
        yield engines


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "no.such.host.invalid:9092"])
def test_a_broker_that_never_answered_holds_up_none_of_several_threads(servers: str) -> None:
    before = {*threading.enumerate()}
    log = KafkaLog(Access(servers=servers))
    took: list[float] = []
    threads = [threading.Thread(target=lambda: took.append(refused(log))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert len(took) == len(threads)
    assert max(took) < BOUNDED
    assert {*threading.enumerate()} <= before


def test_a_record_that_is_too_large_is_no_outage_and_the_next_one_taken(access: Access) -> None:
    log = KafkaLog(access)
    with pytest.raises(Poison, match="larger than the log takes"):
        log.append(LARGE)
    log.append(ONE)
    log.close()


def test_a_topic_that_was_deleted_under_us_takes_records_again_once_it_is_made_anew(access: Access) -> None:
    log = KafkaLog(access)
    log.append(ONE)
    with admin_client(access) as admin:
        admin.delete_topics([access.topic(MENTIONS)])
    until(lambda: f"make {MENTIONS}" in pending(access))
    assert refused(log) < BOUNDED
    assert migrate(access) == 1
    taken_again(log)
    log.close()


@pytest.mark.timeout(180)
def test_what_too_few_replicas_would_have_is_refused_until_they_are_back(three: list[Engine]) -> None:
    access = Access(servers=",".join(engine.address for engine in three))
    until(lambda: taken(lambda: migrate(access)))
    log = KafkaLog(access)
    log.append(ONE)
    for engine in three[1:]:
        engine.kill()
    assert refused(log) < BOUNDED
    three[1].start()
    three[1].ready()
    taken_again(log)
    log.close()


def refused(log: KafkaLog) -> float:
    began = time.monotonic()
    with pytest.raises(LogUnavailable):
        log.append(ONE)
    return time.monotonic() - began


def taken_again(log: KafkaLog) -> None:
    until(lambda: taken(lambda: log.append(ONE)))


def taken(call: Callable[[], object]) -> bool:
    try:
        call()
    except LogUnavailable:
        return False
    return True
