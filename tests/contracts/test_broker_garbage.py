"""Garbage in Celery's Redis: the queues take tasks again at once, and what was lost is the ledger's to queue again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TypeVar

import pytest
from redis import Redis

from notifier.adapters.celery.app import on_redis, queue_names
from notifier.adapters.celery.queue import REST, CeleryQueue
from notifier.adapters.celery.transport import MUTEX, BrokerKeys
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import QueueUnavailable
from notifier.metrics import Metrics
from tests.contracts.garbage import whole
from tests.contracts.test_queue import EVERYWHERE, take
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Broker:
    """The database of one pool."""

    pool: Pool
    url: str
    queue: CeleryQueue
    database: Redis
    metrics: Metrics

    def counted(self) -> float:
        return self.metrics.registry.get_sample_value("notifier_cache_garbage_total", {"kind": "queue"}) or 0.0

    def enqueue(self) -> None:
        self.queue.enqueue([piece for piece in EVERYWHERE if piece.pool is self.pool])

    def depth(self) -> int:
        return self.queue.depth(self.pool)


@pytest.fixture(params=Pool)
def broker(valkey: Valkey, request: pytest.FixtureRequest) -> Iterator[Broker]:
    urls, metrics = on_redis(valkey.url), Metrics()
    queue = CeleryQueue(urls, metrics)
    with Redis.from_url(urls[request.param]) as database:
        yield Broker(request.param, urls[request.param], queue, database, metrics)
    queue.close()


def again(call: Callable[[], T]) -> T:
    """As the dispatcher does: what failed is done again with a later round."""
    deadline = monotonic() + 10 * REST
    while True:
        try:
            return call()
        except QueueUnavailable:
            assert monotonic() < deadline, "the queue isn't mended"
            sleep(0.01)


def test_queue_of_another_type_is_replaced_once_a_call_has_met_it(broker: Broker) -> None:
    for name in queue_names(broker.pool):
        for way, garble in whole(broker.database, name):
            if way == "list":
                continue
            before = broker.counted()
            garble()
            assert again(broker.depth) == 0, way
            assert broker.counted() == before + 1, way
            garble()
            again(broker.enqueue)
            assert again(broker.depth) == 1, way
            assert take(broker.url, broker.pool), way
            broker.database.flushdb()


def test_keys_of_held_tasks_keep_their_type_and_an_end(broker: Broker) -> None:
    keys = BrokerKeys.of(queue_names(broker.pool), broker.metrics.garbage)
    for name, type in keys.types.items():
        for way, garble in whole(broker.database, name):
            before = broker.counted()
            garble()
            keys.tidy(broker.database)
            found = broker.database.type(name)
            # A mutex that never ends is garbage, too.
            kept = way.partition(":")[0] == type and name != MUTEX
            assert (found, broker.counted() - before) == ((type.encode(), 0) if kept else (b"none", 1)), (name, way)
            broker.database.flushdb()


def test_mutex_with_an_end_stays(broker: Broker) -> None:
    broker.database.set(MUTEX, "a worker", ex=300)
    BrokerKeys.of(queue_names(broker.pool), None).tidy(broker.database)
    assert broker.database.get(MUTEX) == b"a worker"
