"""The Queue port on Celery: slices as task messages, many of them in one round trip."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from celery import Celery
from kombu.exceptions import KombuError

from notifier.adapters.celery.app import ANSWER_WITHIN, application, declaration, is_redis, queue_names, queue_of
from notifier.adapters.celery.publisher_confirms import Confirmed
from notifier.adapters.celery.transport import TASK
from notifier.config.field import split
from notifier.domain.delivery.slice import Pool, Slice
from notifier.domain.errors import QueueUnavailable
from notifier.metrics import Metrics

# A breaker for a broker that hangs: who waited in vain lets the next ones fail at once, for a while.

REST = 1.0
"""Seconds after a wait in vain in which nobody asks: at most half of a thread's time goes into waiting, however many
slices, pools and calls there are; a broker that woke is found within it."""

VAIN = 0.25
"""Seconds from which on a failure was a wait. A broker that is gone says so within a millisecond, and is asked again at
once, because it is back sooner than a rest ends."""


class BrokerBreaker:
    """Thread-safe. One for all pools of a process that share a server."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._silent = False
        self._asks_again_at = 0.0
        self._lock = Lock()

    def admit(self) -> float:
        """The moment at which the call begins. Raises QueueUnavailable while the broker is left alone."""
        with self._lock:
            now = self._now()
            if self._silent:
                if now < self._asks_again_at:
                    raise QueueUnavailable("It didn't answer a moment ago, and isn't asked again yet.")
                self._asks_again_at = now + REST  # this call asks; until it knows, the others do without
            return now

    def failed(self, began: float) -> None:
        with self._lock:
            now = self._now()
            self._silent = now - began >= VAIN
            self._asks_again_at = now + REST

    def answered(self) -> None:
        with self._lock:
            self._silent = False


T = TypeVar("T")

Producer = Any
"""Kombu's, which has no types."""


class CeleryQueue:
    """Thread-safe. Connects at the first use, and again at the first use after an error."""

    def __init__(self, brokers: Mapping[Pool, str], metrics: Metrics | None = None) -> None:
        breakers: dict[str, BrokerBreaker] = defaultdict(BrokerBreaker)
        self._lanes = {
            pool: (PoolQueue if is_redis(url) else ConfirmedLane)(url, pool, breakers[split(url).netloc], metrics)
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


class PoolQueue:
    """One pool's way into its queues."""

    def __init__(self, broker: str, pool: Pool, breaker: BrokerBreaker, metrics: Metrics | None) -> None:
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


class ConfirmedLane(PoolQueue):
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


# A look at a broker that is no Redis: whether it lets us in; it makes no queue.


def knock(broker: str, pool: Pool) -> None:
    """Raises QueueUnavailable."""
    connection = application(broker, pool, answer_within=ANSWER_WITHIN).connection_for_read()
    try:
        connection.connect()
    except (*connection.connection_errors, KombuError, OSError) as error:
        raise QueueUnavailable(f"{type(error).__name__}: {error}") from error
    finally:
        connection.release()
