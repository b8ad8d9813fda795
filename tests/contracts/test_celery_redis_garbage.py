"""Garbage in Celery's Redis is deleted, and the queues work again."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from time import monotonic, sleep
from typing import TypeVar

import pytest
from redis import Redis

from notifier.adapters.celery.app import queue_names
from notifier.adapters.celery.garbage_deleting_transport import UNACKED_MUTEX_KEY, ExpectedKeyTypes
from notifier.adapters.celery.queue import OPEN_SECONDS, CeleryQueue
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import QueueUnavailable
from notifier.metrics import Metrics
from notifier.profiles.redis_urls_and_task_queue import redis_broker_urls
from tests.contracts.redis_garbage import replacements
from tests.contracts.test_task_queues import ONE_SLICE_PER_POOL, take
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Broker:
    """The Redis database of one pool."""

    pool: Pool
    url: str
    queue: CeleryQueue
    database: Redis
    metrics: Metrics

    def garbage_count(self) -> float:
        return self.metrics.registry.get_sample_value("notifier_cache_garbage_total", {"kind": "queue"}) or 0.0

    def enqueue(self) -> None:
        self.queue.enqueue([slice_ for slice_ in ONE_SLICE_PER_POOL if slice_.pool is self.pool])

    def depth(self) -> int:
        return self.queue.depth(self.pool)


@pytest.fixture(params=Pool)
def broker(valkey: Valkey, request: pytest.FixtureRequest) -> Iterator[Broker]:
    urls, metrics = redis_broker_urls(valkey.url), Metrics()
    queue = CeleryQueue(urls, metrics)
    with Redis.from_url(urls[request.param]) as database:
        yield Broker(request.param, urls[request.param], queue, database, metrics)
    queue.close()


def retry(call: Callable[[], T]) -> T:
    """Retry as the dispatcher does in later rounds."""
    deadline = monotonic() + 10 * OPEN_SECONDS
    while True:
        try:
            return call()
        except QueueUnavailable:
            assert monotonic() < deadline, "the queue did not recover"
            sleep(0.01)


@pytest.mark.thorough
def test_queue_of_wrong_type_is_replaced_on_first_access(broker: Broker) -> None:
    for name in queue_names(broker.pool):
        for description, garble in replacements(broker.database, name):
            if description == "list":
                continue
            before = broker.garbage_count()
            garble()
            assert retry(broker.depth) == 0, description
            assert broker.garbage_count() == before + 1, description
            garble()
            retry(broker.enqueue)
            assert retry(broker.depth) == 1, description
            assert take(broker.url, broker.pool), description
            broker.database.flushdb()


def test_keys_of_unacknowledged_tasks_keep_type_and_ttl(broker: Broker) -> None:
    keys = ExpectedKeyTypes.for_queues(queue_names(broker.pool), broker.metrics.redis_garbage)
    for name, expected_type in keys.type_by_key.items():
        for description, garble in replacements(broker.database, name):
            before = broker.garbage_count()
            garble()
            keys.delete_garbage(broker.database)
            type_ = broker.database.type(name)
            # A mutex without a TTL is garbage, too.
            kept = description.partition(":")[0] == expected_type and name != UNACKED_MUTEX_KEY
            assert (type_, broker.garbage_count() - before) == (
                (expected_type.encode(), 0) if kept else (b"none", 1)
            ), (name, description)
            broker.database.flushdb()


def test_mutex_with_ttl_is_kept(broker: Broker) -> None:
    broker.database.set(UNACKED_MUTEX_KEY, "a worker", ex=300)
    ExpectedKeyTypes.for_queues(queue_names(broker.pool), None).delete_garbage(broker.database)
    assert broker.database.get(UNACKED_MUTEX_KEY) == b"a worker"


def test_deletion_of_garbage_never_deletes_a_concurrent_task(valkey: Valkey) -> None:
    """Two processes meet the same garbage: one deletes it and queues a task, while the other still deletes."""
    url = redis_broker_urls(valkey.url)[Pool.P1]
    [queue] = queue_names(Pool.P1)
    keys, has_ended = ExpectedKeyTypes.for_queues((queue,), None), Event()

    def delete_repeatedly() -> None:
        with Redis.from_url(url) as second_client:
            while not has_ended.is_set():
                keys.delete_garbage(second_client)

    with Redis.from_url(url) as database, ThreadPoolExecutor() as threads:
        deletion = threads.submit(delete_repeatedly)
        try:
            for number in range(300):
                database.set(queue, "garbage")
                keys.delete_garbage(database)
                database.lpush(queue, "task")
                sleep(0.0002 * (number % 5))
                assert database.rpop(queue) == b"task"
        finally:
            has_ended.set()
        deletion.result()
