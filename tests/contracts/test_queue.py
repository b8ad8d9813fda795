"""The task queues, on every backend: they carry slices, each to its pool, and may be emptied without harm."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from notifier.adapters.celery.app import ANSWER_WITHIN, application, on_redis, queue_names
from notifier.adapters.celery.queue import REST, VAIN, BrokerBreaker, CeleryQueue
from notifier.adapters.celery.transport import TASK
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.slice import PHONES, Pool, Slice, Step
from notifier.domain.errors import QueueUnavailable
from notifier.domain.ids import BurstKey
from notifier.ports.coordination import Queue
from tests.contracts.rabbit_fixture import Rabbit, rabbit, rabbit_server
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.coordination import MemoryQueue

__all__ = ["rabbit", "rabbit_server", "valkey", "valkey_server"]


CATALOGUED_WITHIN = 4.0
"""Seconds after which RabbitMQ has on its disk that there is a queue, which it holds in memory for 2. Of one that was
declared a moment before the only node was killed the tasks are gone; the ledger queues them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    queue: Queue
    wipe: Callable[[], None]
    take: Callable[[Pool], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A real one."""

    brokers: Mapping[Pool, str]
    pid: int
    wipe: Callable[[], None]


def on_valkey(valkey: Valkey) -> Broker:
    assert valkey.server.pid
    return Broker(brokers=on_redis(valkey.url), pid=valkey.server.pid, wipe=valkey.wipe)


def on_rabbit(rabbit: Rabbit) -> Broker:
    assert rabbit.engine.pid
    return Broker(brokers=rabbit.brokers, pid=rabbit.engine.pid, wipe=rabbit.wipe)


def broker_named(name: str, request: pytest.FixtureRequest) -> Broker:
    found = request.getfixturevalue(name)
    return on_valkey(found) if name == "valkey" else on_rabbit(found)


@pytest.fixture(params=["valkey", "rabbit"])
def broker(request: pytest.FixtureRequest) -> Broker:
    return broker_named(request.param, request)


@pytest.fixture(params=["memory", "valkey", "rabbit"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "memory":
        queue = MemoryQueue()
        yield Backend(queue=queue, wipe=queue.wipe, take=lambda pool: _text(queue.take(pool)))
        return
    broker = broker_named(request.param, request)
    celery = CeleryQueue(broker.brokers)
    yield Backend(queue=celery, wipe=broker.wipe, take=lambda pool: take(broker.brokers[pool], pool))
    celery.close()


def take(url: str, pool: Pool) -> str | None:
    """The oldest task that nothing passes, as Celery's worker would read it."""
    with application(url, pool).connection_for_read() as connection:
        channel = connection.default_channel
        each = (channel.basic_get(name, no_ack=True) for name in queue_names(pool))
        found = next(filter(None, each), None)
        message = found and channel.message_to_python(found)
    if message is None:
        return None
    assert message.headers["task"] == TASK
    [[piece], _, _] = message.payload
    assert message.headers["id"] == piece
    return str(piece)


def piece(seq: int, tier: Tier = Tier.P1, step: Step = Step.ROWS) -> Slice:
    return Slice(BurstKey.parse(f"mention:nova#{seq}"), step, tier, 0, 63)


EVERYWHERE = [piece(1, Tier.P0), piece(2, Tier.P1), piece(3, Tier.P2)] + [
    piece(4 + n, Tier.P1, step) for n, step in enumerate(PHONES)
]
"""One for each pool, in their order."""


def _text(found: Slice | None) -> str | None:
    return None if found is None else str(found)


def test_a_queue_begins_empty(backend: Backend) -> None:
    assert [backend.queue.depth(pool) for pool in Pool] == [0] * len(Pool)


def test_slices_come_out_oldest_first(backend: Backend) -> None:
    backend.queue.enqueue([piece(1), piece(2)])
    backend.queue.enqueue([piece(3)])
    assert [backend.take(Pool.P1) for _ in range(4)] == [str(piece(1)), str(piece(2)), str(piece(3)), None]


def test_every_slice_goes_to_the_queue_of_its_pool(backend: Backend) -> None:
    backend.queue.enqueue(EVERYWHERE)
    assert [backend.take(pool) for pool in Pool] == [str(one) for one in EVERYWHERE]


@pytest.mark.parametrize("step", PHONES)
def test_phones_of_p0_pass_a_crowd_that_is_queued(backend: Backend, step: Step) -> None:
    crowd, pool = [piece(seq, tier, step) for seq, tier in enumerate((Tier.P1, Tier.P2, Tier.DORMANT), 1)], Pool(step)
    vips = [piece(seq, Tier.P0, step) for seq in (4, 5)]
    backend.queue.enqueue([*crowd, vips[0]])
    backend.queue.enqueue([vips[1]])
    assert backend.queue.depth(pool) == 5
    assert [backend.take(pool) for _ in range(6)] == [*map(str, [*vips, *crowd]), None]
    assert backend.queue.depth(pool) == 0


def test_depth_counts_what_waits_in_one_pool(backend: Backend) -> None:
    backend.queue.enqueue([piece(seq) for seq in range(1, 251)])
    assert (backend.queue.depth(Pool.P1), backend.queue.depth(Pool.P0)) == (250, 0)
    backend.take(Pool.P1)
    assert backend.queue.depth(Pool.P1) == 249


def test_a_slice_may_be_queued_twice(backend: Backend) -> None:
    backend.queue.enqueue([piece(1)])
    backend.queue.enqueue([piece(1)])
    assert backend.queue.depth(Pool.P1) == 2


def test_an_emptied_queue_goes_on(backend: Backend) -> None:
    backend.queue.enqueue([piece(1)])
    backend.wipe()
    assert backend.queue.depth(Pool.P1) == 0
    backend.queue.enqueue([piece(2)])
    assert backend.take(Pool.P1) == str(piece(2))


def test_pools_that_share_a_redis_share_no_database() -> None:
    urls = set(on_redis("redis://:secret@host:6379/0").values())
    assert urls == {f"redis://:secret@host:6379/{db}" for db in range(1, 7)}


@pytest.mark.parametrize(
    "brokers", [on_redis("redis://127.0.0.1:1/0"), dict.fromkeys(Pool, "amqp://a:b@127.0.0.1:1//")]
)
def test_without_a_broker_it_says_so_at_once(brokers: Mapping[Pool, str]) -> None:
    queue = CeleryQueue(brokers)
    began = time.monotonic()
    with pytest.raises(QueueUnavailable):
        queue.enqueue([piece(1)])
    with pytest.raises(QueueUnavailable):
        queue.depth(Pool.P1)
    assert time.monotonic() - began < 4
    queue.close()


def test_a_hung_broker_costs_a_process_one_wait_however_much_it_queues(broker: Broker) -> None:
    queue, pid = CeleryQueue(broker.brokers), broker.pid
    queue.enqueue(EVERYWHERE)
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        for _ in range(10):
            with pytest.raises(QueueUnavailable):
                queue.enqueue(EVERYWHERE)
            for pool in Pool:
                with pytest.raises(QueueUnavailable):
                    queue.depth(pool)
        waited = time.monotonic() - began
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ANSWER_WITHIN / 2 < waited < 2 * ANSWER_WITHIN
    deadline = time.monotonic() + 5 * REST
    while (depth := depth_of(queue, Pool.P0)) is None:
        assert time.monotonic() < deadline, "a broker that woke isn't asked again"
        time.sleep(0.01)
    assert depth >= 1
    queue.close()


def test_a_lost_queue_is_declared_again_by_the_next_that_uses_it(broker: Broker) -> None:
    """Never is a task taken for queued that went nowhere."""
    queue, other = CeleryQueue(broker.brokers), CeleryQueue(broker.brokers)
    queue.enqueue([piece(1)])
    broker.wipe()
    queue.enqueue([piece(2)])
    assert other.depth(Pool.P1) == 1
    queue.close()
    other.close()


def test_rabbitmq_keeps_in_quorum_queues_what_it_confirmed_when_it_is_killed(rabbit: Rabbit) -> None:
    queue = CeleryQueue(rabbit.brokers)
    assert queue.depth(Pool.P1) == 0
    time.sleep(CATALOGUED_WITHIN)
    queue.enqueue([piece(seq) for seq in range(1, 101)])
    rabbit.engine.kill()
    with pytest.raises(QueueUnavailable):
        queue.enqueue([piece(101)])
    rabbit.engine.start()
    rabbit.engine.ready()
    deadline = time.monotonic() + 30
    # It listens before it has read its disk.
    while depth_of(queue, Pool.P1) != 100:
        assert time.monotonic() < deadline, depth_of(queue, Pool.P1)
        time.sleep(0.05)
    connection = application(rabbit.brokers[Pool.P1], Pool.P1).connection_for_read()
    with connection, pytest.raises(connection.channel_errors, match="x-queue-type"):
        connection.default_channel.queue_declare(queue_names(Pool.P1)[0], durable=True, auto_delete=False)
    queue.close()


def depth_of(queue: Queue, pool: Pool) -> int | None:
    try:
        return queue.depth(pool)
    except QueueUnavailable:
        return None


def test_after_a_wait_in_vain_one_call_asks_for_all_and_a_refusal_at_once_keeps_nobody_away() -> None:
    now = [10.0]
    breaker = BrokerBreaker(lambda: now[0])

    def fails(after: float) -> None:
        began = breaker.admit()
        now[0] += after
        breaker.failed(began)

    for _ in range(3):
        fails(0.0)
    fails(VAIN)
    with pytest.raises(QueueUnavailable):
        breaker.admit()
    now[0] += REST
    fails(VAIN)  # one asks
    with pytest.raises(QueueUnavailable):
        breaker.admit()
    now[0] += REST
    breaker.admit()
    with pytest.raises(QueueUnavailable):
        breaker.admit()  # while that one waits
    breaker.answered()
    breaker.admit()
