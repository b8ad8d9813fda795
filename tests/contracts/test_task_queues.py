"""Task queues carry each slice to its pool, and can be emptied safely."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from notifier.adapters.celery.app import PRODUCER_TIMEOUT, celery_app, queue_names
from notifier.adapters.celery.garbage_deleting_transport import TASK_NAME
from notifier.adapters.celery.queue import MIN_TIMEOUT_SECONDS, OPEN_SECONDS, BrokerBreaker
from notifier.devkit.engines.engine_process import suspend
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Pool, Slice, Step
from notifier.domain.errors import QueueUnavailable
from notifier.domain.ids import BurstKey
from notifier.ports.leases_queues_throttles_clock import Queue
from notifier.profiles.redis_urls_and_task_queue import TaskQueue, redis_broker_urls
from tests.contracts.rabbit_fixture import Rabbit, rabbit, rabbit_server
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.epochs_leases_queues_throttles import MemoryQueue

__all__ = ["rabbit", "rabbit_server", "valkey", "valkey_server"]


QUEUE_PERSISTED_WITHIN = 4.0
"""Seconds until RabbitMQ has written a new queue to disk. It keeps its record in memory for two seconds.

If the only node is killed before, the queue's tasks are lost, and the ledger queues them again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    queue: Queue
    wipe: Callable[[], None]
    take: Callable[[Pool], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A real broker."""

    brokers: Mapping[Pool, str]
    pid: int
    wipe: Callable[[], None]


def on_valkey(valkey: Valkey) -> Broker:
    assert valkey.server.pid
    return Broker(brokers=redis_broker_urls(valkey.url), pid=valkey.server.pid, wipe=valkey.wipe)


def on_rabbit(rabbit: Rabbit) -> Broker:
    assert rabbit.engine.pid
    return Broker(brokers=rabbit.brokers, pid=rabbit.engine.pid, wipe=rabbit.wipe)


def broker_named(name: str, request: pytest.FixtureRequest) -> Broker:
    fixture = request.getfixturevalue(name)
    return on_valkey(fixture) if name == "valkey" else on_rabbit(fixture)


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
    celery = TaskQueue(broker.brokers)
    yield Backend(queue=celery, wipe=broker.wipe, take=lambda pool: take(broker.brokers[pool], pool))
    celery.close()


def take(url: str, pool: Pool) -> str | None:
    """Return the oldest task of highest priority, as Celery's worker would read it."""
    with celery_app(url, pool).connection_for_read() as connection:
        channel = connection.default_channel
        responses = (channel.basic_get(name, no_ack=True) for name in queue_names(pool))
        response = next(filter(None, responses), None)
        message = response and channel.message_to_python(response)
    if message is None:
        return None
    assert message.headers["task"] == TASK_NAME
    [[slice_id], _, _] = message.payload
    assert message.headers["id"] == slice_id
    return str(slice_id)


def make_slice(seq: int, tier: Tier = Tier.P1, step: Step = Step.ROWS) -> Slice:
    return Slice(BurstKey.parse(f"mention:nova#{seq}"), step, tier, 0, 63)


ONE_SLICE_PER_POOL = [make_slice(1, Tier.P0), make_slice(2, Tier.P1), make_slice(3, Tier.P2)] + [
    make_slice(4 + n, Tier.P1, step) for n, step in enumerate(PUSH_STEPS)
]
"""One slice per pool, in the order of the pools."""


def _text(slice_: Slice | None) -> str | None:
    return None if slice_ is None else str(slice_)


def test_queue_is_empty_at_first(backend: Backend) -> None:
    assert [backend.queue.depth(pool) for pool in Pool] == [0] * len(Pool)


def test_slices_come_out_oldest_first(backend: Backend) -> None:
    backend.queue.enqueue([make_slice(1), make_slice(2)])
    backend.queue.enqueue([make_slice(3)])
    assert [backend.take(Pool.P1) for _ in range(4)] == [
        str(make_slice(1)),
        str(make_slice(2)),
        str(make_slice(3)),
        None,
    ]


def test_slice_goes_to_queue_of_its_pool(backend: Backend) -> None:
    backend.queue.enqueue(ONE_SLICE_PER_POOL)
    assert [backend.take(pool) for pool in Pool] == [str(slice_) for slice_ in ONE_SLICE_PER_POOL]


@pytest.mark.parametrize("step", PUSH_STEPS)
def test_p0_alerts_overtake_queued_lower_tiers(backend: Backend, step: Step) -> None:
    bulk, pool = [make_slice(n, tier, step) for n, tier in enumerate((Tier.P1, Tier.P2, Tier.DORMANT), 1)], Pool(step)
    p0_slices = [make_slice(seq, Tier.P0, step) for seq in (4, 5)]
    backend.queue.enqueue([*bulk, p0_slices[0]])
    backend.queue.enqueue([p0_slices[1]])
    assert backend.queue.depth(pool) == 5
    assert [backend.take(pool) for _ in range(6)] == [*map(str, [*p0_slices, *bulk]), None]
    assert backend.queue.depth(pool) == 0


def test_depth_counts_tasks_of_one_pool(backend: Backend) -> None:
    backend.queue.enqueue([make_slice(seq) for seq in range(1, 251)])
    assert (backend.queue.depth(Pool.P1), backend.queue.depth(Pool.P0)) == (250, 0)
    backend.take(Pool.P1)
    assert backend.queue.depth(Pool.P1) == 249


def test_slice_can_be_queued_twice(backend: Backend) -> None:
    backend.queue.enqueue([make_slice(1)])
    backend.queue.enqueue([make_slice(1)])
    assert backend.queue.depth(Pool.P1) == 2


def test_emptied_queue_keeps_working(backend: Backend) -> None:
    backend.queue.enqueue([make_slice(1)])
    backend.wipe()
    assert backend.queue.depth(Pool.P1) == 0
    backend.queue.enqueue([make_slice(2)])
    assert backend.take(Pool.P1) == str(make_slice(2))


def test_pools_on_one_redis_use_separate_databases() -> None:
    urls = set(redis_broker_urls("redis://:secret@host:6379/0").values())
    assert urls == {f"redis://:secret@host:6379/{db}" for db in range(1, 7)}


@pytest.mark.parametrize(
    "brokers", [redis_broker_urls("redis://127.0.0.1:1/0"), dict.fromkeys(Pool, "amqp://a:b@127.0.0.1:1//")]
)
def test_queue_fails_at_once_without_broker(brokers: Mapping[Pool, str]) -> None:
    queue = TaskQueue(brokers)
    started = time.monotonic()
    with pytest.raises(QueueUnavailable):
        queue.enqueue([make_slice(1)])
    with pytest.raises(QueueUnavailable):
        queue.depth(Pool.P1)
    assert time.monotonic() - started < 4
    queue.close()


@pytest.mark.thorough
def test_hung_broker_costs_a_process_only_one_timeout(broker: Broker) -> None:
    queue, pid = TaskQueue(broker.brokers), broker.pid
    queue.enqueue(ONE_SLICE_PER_POOL)
    suspend(pid)
    try:
        started = time.monotonic()
        for _ in range(10):
            with pytest.raises(QueueUnavailable):
                queue.enqueue(ONE_SLICE_PER_POOL)
            for pool in Pool:
                with pytest.raises(QueueUnavailable):
                    queue.depth(pool)
        waited = time.monotonic() - started
    finally:
        os.kill(pid, signal.SIGCONT)
    assert PRODUCER_TIMEOUT / 2 < waited < 2 * PRODUCER_TIMEOUT
    deadline = time.monotonic() + 5 * OPEN_SECONDS
    while (depth := depth_of(queue, Pool.P0)) is None:
        assert time.monotonic() < deadline, "the broker works again but is not asked"
        time.sleep(0.01)
    assert depth >= 1
    queue.close()


def test_lost_queue_is_declared_again_on_next_use(broker: Broker) -> None:
    """A task must never count as queued when it reached no queue."""
    queue, other_queue = TaskQueue(broker.brokers), TaskQueue(broker.brokers)
    queue.enqueue([make_slice(1)])
    broker.wipe()
    queue.enqueue([make_slice(2)])
    assert other_queue.depth(Pool.P1) == 1
    queue.close()
    other_queue.close()


@pytest.mark.thorough
def test_rabbitmq_quorum_queue_keeps_confirmed_tasks_when_killed(rabbit: Rabbit) -> None:
    queue = TaskQueue(rabbit.brokers)
    assert queue.depth(Pool.P1) == 0
    time.sleep(QUEUE_PERSISTED_WITHIN)
    queue.enqueue([make_slice(seq) for seq in range(1, 101)])
    rabbit.engine.kill()
    with pytest.raises(QueueUnavailable):
        queue.enqueue([make_slice(101)])
    rabbit.engine.start()
    rabbit.engine.wait_until_ready()
    deadline = time.monotonic() + 30
    # RabbitMQ accepts connections before it has read its disk.
    while depth_of(queue, Pool.P1) != 100:
        assert time.monotonic() < deadline, depth_of(queue, Pool.P1)
        time.sleep(0.05)
    connection = celery_app(rabbit.brokers[Pool.P1], Pool.P1).connection_for_read()
    with connection, pytest.raises(connection.channel_errors, match="x-queue-type"):
        connection.default_channel.queue_declare(queue_names(Pool.P1)[0], durable=True, auto_delete=False)
    queue.close()


def depth_of(queue: Queue, pool: Pool) -> int | None:
    try:
        return queue.depth(pool)
    except QueueUnavailable:
        return None


def test_breaker_opens_after_timeout_but_not_after_quick_refusal() -> None:
    now = [10.0]
    breaker = BrokerBreaker(lambda: now[0])

    def fail_call(duration: float) -> None:
        started = breaker.begin_call()
        now[0] += duration
        breaker.on_failure(started)

    for _ in range(3):
        fail_call(0.0)
    fail_call(MIN_TIMEOUT_SECONDS)
    with pytest.raises(QueueUnavailable):
        breaker.begin_call()
    now[0] += OPEN_SECONDS
    fail_call(MIN_TIMEOUT_SECONDS)  # one call probes the broker
    with pytest.raises(QueueUnavailable):
        breaker.begin_call()
    now[0] += OPEN_SECONDS
    breaker.begin_call()
    with pytest.raises(QueueUnavailable):
        breaker.begin_call()  # while that probe waits
    breaker.on_success()
    breaker.begin_call()
