"""Implementation of the Queue port on Celery: slices as task messages."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from celery import Celery
from kombu.exceptions import KombuError, OperationalError

from notifier.adapters.celery.app import (
    PRODUCER_TIMEOUT,
    celery_app,
    declaration_options,
    is_redis,
    queue_name_for,
    queue_names,
)
from notifier.adapters.celery.garbage_deleting_transport import TASK_NAME
from notifier.config.setting_field import split_url
from notifier.domain.delivery.slice_and_pool import Pool, Slice
from notifier.domain.errors import QueueUnavailable
from notifier.metrics import Metrics

# Circuit breaker for a broker that hangs: after a timeout, calls fail at once for a while.

OPEN_SECONDS = 1.0
"""Seconds that the circuit stays open after a timeout.

Without the circuit breaker, each call to a hung broker would wait for a timeout.
"""

MIN_TIMEOUT_SECONDS = 0.25
"""A call that fails after this many seconds or more counts as a timeout.

If no broker runs at the address, a call fails within a millisecond. Such a failure leaves the circuit closed: the next
call reaches a broker that has started in the meantime.
"""


class BrokerBreaker:
    """Thread-safe circuit breaker, shared by all pools of a CeleryQueue on the same server."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._is_open = False
        self._retry_at = 0.0
        self._lock = Lock()

    def begin_call(self) -> float:
        """Return the start time of the call. While the circuit is open, all but trial calls raise QueueUnavailable."""
        with self._lock:
            now = self._now()
            if self._is_open:
                if now < self._retry_at:
                    raise QueueUnavailable("The broker did not answer a moment ago; it is tried again within a second.")
                # This is the trial call. Other calls fail until its result is known, but at most for OPEN_SECONDS.
                self._retry_at = now + OPEN_SECONDS
            return now

    def on_failure(self, started_at: float) -> None:
        with self._lock:
            now = self._now()
            self._is_open = now - started_at >= MIN_TIMEOUT_SECONDS
            self._retry_at = now + OPEN_SECONDS

    def on_success(self) -> None:
        with self._lock:
            self._is_open = False


T = TypeVar("T")

Producer = Any
"""Producer of kombu, which has no types."""


class CeleryQueue:
    """Thread-safe queue that connects on first use, and again on the first use after an error."""

    def __init__(self, brokers: Mapping[Pool, str], metrics: Metrics | None = None) -> None:
        breakers: dict[str, BrokerBreaker] = defaultdict(BrokerBreaker)
        self._pool_queues = {
            pool: (PoolQueue if is_redis(url) else ConfirmedPoolQueue)(
                url, pool, breakers[split_url(url).netloc], metrics
            )
            for pool, url in brokers.items()
        }

    def enqueue(self, slices: Sequence[Slice]) -> None:
        by_pool: dict[Pool, list[Slice]] = defaultdict(list)
        for slice_ in slices:
            by_pool[slice_.pool].append(slice_)
        for pool, pool_slices in by_pool.items():
            self._pool_queues[pool].send(pool_slices)

    def depth(self, pool: Pool) -> int:
        return self._pool_queues[pool].depth()

    def close(self) -> None:
        for queue in self._pool_queues.values():
            queue.close()


# RabbitMQ: a batch of tasks is sent as a whole, and then its publisher confirms are awaited.


class ConfirmingPublisher:
    """Publisher with confirms on its own channel. Discard it after an error.

    `send` waits once for a whole batch. Kombu's `confirm_publish` would wait for each task: 1 ms on an idle disk.
    """

    def __init__(self, producer: Producer) -> None:
        self._channel = producer.channel
        self._published_count = 0
        self._unconfirmed: set[int] = set()
        self._has_rejection = False
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._on_ack)
        self._channel.events["basic_nack"].add(self._on_nack)

    def send(self, count: int, publish: Callable[[], None], timeout: float) -> None:
        """Call `publish`, which sends `count` tasks, and return when the broker has confirmed all of them.

        Raises OperationalError if the broker rejects a task. Raises OSError if confirms are missing after `timeout`
        seconds.
        """
        # RabbitMQ numbers the messages of a channel from 1. Note the numbers before publishing: the first confirms may
        # arrive while the last tasks are sent.
        self._unconfirmed.update(range(self._published_count + 1, self._published_count + count + 1))
        self._published_count += count
        publish()
        deadline = monotonic() + timeout
        while self._unconfirmed and not self._has_rejection:
            self._channel.connection.drain_events(timeout=max(0.001, deadline - monotonic()))
        if self._has_rejection:
            raise OperationalError("The broker rejected a task.")

    def _on_ack(self, tag: int, multiple: bool) -> None:
        self._unconfirmed -= {number for number in self._unconfirmed if number <= tag} if multiple else {tag}

    def _on_nack(self, tag: int, multiple: bool) -> None:
        self._has_rejection = True


class PoolQueue:
    """Connection to the queues of one pool on Redis. The subclass ConfirmedPoolQueue is for RabbitMQ."""

    def __init__(self, broker: str, pool: Pool, breaker: BrokerBreaker, metrics: Metrics | None) -> None:
        self._app: Celery = celery_app(broker, pool, timeout=PRODUCER_TIMEOUT, metrics=metrics)
        self._breaker = breaker
        self._queues = queue_names(pool)
        self._declaration = declaration_options(broker)
        self._connection = self._app.connection_for_write()
        self._errors = (*self._connection.connection_errors, *self._connection.channel_errors, KombuError, OSError)
        self._producer: Producer = None
        self._lock = Lock()

    def send(self, slices: Sequence[Slice]) -> None:
        """Send the slices as tasks. After QueueUnavailable some of them may be queued; workers ignore duplicates."""

        def publish(producer: Producer) -> None:
            for slice_ in slices:
                # The task id is the slice's name, so Celery's log lines name the slice.
                name = str(slice_)
                queue = queue_name_for(slice_)
                self._app.send_task(TASK_NAME, args=(name,), task_id=name, queue=queue, producer=producer, declare=[])

        self._run_guarded(lambda producer: self._publish(producer, len(slices), lambda: publish(producer)))

    def depth(self) -> int:
        return self._run_guarded(self._declare_and_count)

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _run_guarded(self, operation: Callable[[Producer], T]) -> T:
        with self._lock:
            started_at = self._breaker.begin_call()
            try:
                if self._producer is None:
                    self._producer = self._connect()
                result = operation(self._producer)
            except self._errors as error:
                self._breaker.on_failure(started_at)
                # Do not reuse the connection.
                self._disconnect()
                raise QueueUnavailable(f"{type(error).__name__}: {error}") from error
            self._breaker.on_success()
            return result

    def _connect(self) -> Producer:
        return self._app.amqp.Producer(self._connection, auto_declare=False)

    def _publish(self, producer: Producer, count: int, publish: Callable[[], None]) -> None:
        """Publish the batch in one round trip."""
        with producer.batch():
            publish()

    def _declare_and_count(self, producer: Producer) -> int:
        declared = (producer.channel.queue_declare(name, **self._declaration) for name in self._queues)
        return sum(int(queue.message_count) for queue in declared)

    def _disconnect(self) -> None:
        self._producer = None
        self._connection.close()


class ConfirmedPoolQueue(PoolQueue):
    """Connection to the queues of one pool on RabbitMQ, with publisher confirms."""

    _publisher: ConfirmingPublisher

    def _connect(self) -> Producer:
        # Connect with a single attempt first: opening a channel without a connection would retry forever.
        self._connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
        producer = self._app.amqp.Producer(self._connection.channel(), auto_declare=False)
        self._publisher = ConfirmingPublisher(producer)
        return producer

    def _publish(self, producer: Producer, count: int, publish: Callable[[], None]) -> None:
        # Declare the queues each time: RabbitMQ confirms and drops messages to a queue that does not exist.
        self._declare_and_count(producer)
        self._publisher.send(count, publish, PRODUCER_TIMEOUT)

    def _disconnect(self) -> None:
        self._producer = None
        self._connection.collect()  # no orderly close: that waits for an answer, which a hung broker never sends


# Access check for brokers other than Redis. It creates no queue.


def check_connection(broker: str, pool: Pool) -> None:
    """Connect to the broker once. Raises QueueUnavailable."""
    connection = celery_app(broker, pool, timeout=PRODUCER_TIMEOUT).connection_for_read()
    try:
        connection.connect()
    except (*connection.connection_errors, KombuError, OSError) as error:
        raise QueueUnavailable(f"{type(error).__name__}: {error}") from error
    finally:
        connection.release()
