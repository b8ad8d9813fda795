"""The Queue port on Celery: slices as task messages, many of them in one round trip."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

from celery import Celery
from kombu.exceptions import KombuError

from notifier.adapters.celery.application import ANSWER_WITHIN, TASK, application, queue_name
from notifier.adapters.celery.breaker import Breaker
from notifier.domain.errors import QueueUnavailable
from notifier.domain.slice import Pool, Slice

T = TypeVar("T")

Producer = Any
"""Kombu's, which has no types."""


class CeleryQueue:
    """Thread-safe. Connects at the first use, and again at the first use after an error."""

    def __init__(self, brokers: Mapping[Pool, str]) -> None:
        breakers: dict[str, Breaker] = defaultdict(Breaker)
        self._lanes = {
            pool: Lane(application(url, pool, answer_within=ANSWER_WITHIN), pool, breakers[urlsplit(url).netloc])
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
    """One pool's way into its queue."""

    def __init__(self, app: Celery, pool: Pool, breaker: Breaker) -> None:
        self._app = app
        self._breaker = breaker
        self._queue = queue_name(pool)
        self._connection = app.connection_for_write()
        self._errors = (*self._connection.connection_errors, *self._connection.channel_errors, KombuError, OSError)
        self._producer: Producer = None
        self._lock = Lock()

    def send(self, slices: Sequence[Slice]) -> None:
        def batch(producer: Producer) -> None:
            with producer.batch():
                for piece in slices:
                    # The id is the slice's name: in every log a task says what it is for.
                    name = str(piece)
                    self._app.send_task(
                        TASK, args=(name,), task_id=name, queue=self._queue, producer=producer, declare=[]
                    )

        self._answered(batch)

    def depth(self) -> int:
        def count(producer: Producer) -> int:
            return int(producer.channel.queue_declare(self._queue, durable=True, auto_delete=False).message_count)

        return self._answered(count)

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _answered(self, work: Callable[[Producer], T]) -> T:
        with self._lock:
            began = self._breaker.admit()
            try:
                if self._producer is None:
                    self._producer = self._app.amqp.Producer(self._connection, auto_declare=False)
                found = work(self._producer)
            except self._errors as error:
                self._breaker.failed(began)
                # Half a batch may have been queued, and the ledger bears that; the connection isn't used again.
                self._drop()
                raise QueueUnavailable(f"{type(error).__name__}: {error}") from error
            self._breaker.answered()
            return found

    def _drop(self) -> None:
        self._producer = None
        self._connection.close()
