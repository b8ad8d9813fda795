"""The Queue port on Celery: slices as task messages, many of them in one round trip."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, TypeVar

from celery import Celery
from kombu.exceptions import KombuError

from notifier.adapters.celery.app import ANSWER_WITHIN, application, declaration, is_redis, queue_names, queue_of
from notifier.adapters.celery.circuit_breaker import Breaker
from notifier.adapters.celery.publisher_confirms import Confirmed
from notifier.adapters.celery.transport import TASK
from notifier.config.urls import split
from notifier.domain.delivery.slice import Pool, Slice
from notifier.domain.errors import QueueUnavailable
from notifier.metrics import Metrics

T = TypeVar("T")

Producer = Any
"""Kombu's, which has no types."""


class CeleryQueue:
    """Thread-safe. Connects at the first use, and again at the first use after an error."""

    def __init__(self, brokers: Mapping[Pool, str], metrics: Metrics | None = None) -> None:
        breakers: dict[str, Breaker] = defaultdict(Breaker)
        self._lanes = {
            pool: (Lane if is_redis(url) else ConfirmedLane)(url, pool, breakers[split(url).netloc], metrics)
            for pool, url in brokers.items()
        }

    def enqueue(self, slices: Sequence[Slice]) -> None:
        by_pool: dict[Pool, list[Slice]] = defaultdict(list)
        for piece in slices:
            by_pool[piece.pool].append(piece)
        for pool, pieces in by_pool.items():
            self._lanes[pool].send(pieces)

    def depth(self, pool: Pool) -> int:
        return self._lanes[pool].depth()

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()


class Lane:
    """One pool's way into its queues."""

    def __init__(self, broker: str, pool: Pool, breaker: Breaker, metrics: Metrics | None) -> None:
        self._app: Celery = application(broker, pool, answer_within=ANSWER_WITHIN, metrics=metrics)
        self._breaker = breaker
        self._queues = queue_names(pool)
        self._declaration = declaration(broker)
        self._connection = self._app.connection_for_write()
        self._errors = (*self._connection.connection_errors, *self._connection.channel_errors, KombuError, OSError)
        self._producer: Producer = None
        self._lock = Lock()

    def send(self, slices: Sequence[Slice]) -> None:
        """Raises QueueUnavailable within a second or two: what isn't queued is queued again from the ledger."""

        def publish(producer: Producer) -> None:
            for piece in slices:
                # The id is the slice's name: in every log a task says what it is for.
                name = str(piece)
                queue = queue_of(piece)
                self._app.send_task(TASK, args=(name,), task_id=name, queue=queue, producer=producer, declare=[])

        self._answered(lambda producer: self._carry(producer, len(slices), lambda: publish(producer)))

    def depth(self) -> int:
        return self._answered(self._declare)

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _answered(self, work: Callable[[Producer], T]) -> T:
        with self._lock:
            began = self._breaker.admit()
            try:
                if self._producer is None:
                    self._producer = self._opened()
                found = work(self._producer)
            except self._errors as error:
                self._breaker.failed(began)
                # Half a batch may have been queued, and the ledger bears that; the connection isn't used again.
                self._drop()
                raise QueueUnavailable(f"{type(error).__name__}: {error}") from error
            self._breaker.answered()
            return found

    def _opened(self) -> Producer:
        return self._app.amqp.Producer(self._connection, auto_declare=False)

    def _carry(self, producer: Producer, count: int, publish: Callable[[], None]) -> None:
        """In one round trip."""
        with producer.batch():
            publish()

    def _declare(self, producer: Producer) -> int:
        declared = (producer.channel.queue_declare(name, **self._declaration) for name in self._queues)
        return sum(int(each.message_count) for each in declared)

    def _drop(self) -> None:
        self._producer = None
        self._connection.close()


class ConfirmedLane(Lane):
    """On RabbitMQ."""

    _confirmed: Confirmed

    def _opened(self) -> Producer:
        # Once: who asks for a channel without a connection is given one for ever.
        self._connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
        producer = self._app.amqp.Producer(self._connection.channel(), auto_declare=False)
        self._confirmed = Confirmed(producer)
        return producer

    def _carry(self, producer: Producer, count: int, publish: Callable[[], None]) -> None:
        # Declared each time: what goes to a queue that isn't there is confirmed, too, and thrown away.
        self._declare(producer)
        self._confirmed.send(count, publish, ANSWER_WITHIN)

    def _drop(self) -> None:
        self._producer = None
        self._connection.collect()  # closing in order is a question, and a hung broker answers none
