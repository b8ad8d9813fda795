"""One Celery application a pool, and every setting of it: what it is told not to do is what makes it dependable.

Celery only wakes workers. The ledger knows what is to be done, so everything by which Celery would keep, repeat or
schedule work by itself is off or out of the way.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlunsplit

from celery import Celery
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.transport import redis

from notifier.adapters.celery.transport import OPTION, TASK, BrokerKeys, TidyTransport
from notifier.config.field import split
from notifier.domain.delivery.scheduling import CREDITS
from notifier.domain.delivery.slice import HAND_BACK_AFTER, PHONES, Pool, Slice
from notifier.metrics import Metrics

DATABASES = {Pool.P0: 1, Pool.P1: 2, Pool.P2: 3, Pool.APNS: 4, Pool.FCM: 5, Pool.WEB: 6}
"""On one Redis each pool has a database of its own: pools that share one restore each other's running tasks.

0 is for everything else.
"""

VISIBILITY = 5 * HAND_BACK_AFTER
"""A task held for so long is given out again. No slice is held longer than HAND_BACK_AFTER, so this is a dead worker's,
which the ledger queued again long ago: it only tidies up, and the second copy finds nothing to do."""

ANSWER_WITHIN = 1.0
"""Seconds; queueing waits for this, and what it couldn't queue is queued again from the ledger."""

HEARTBEAT = 2 * HAND_BACK_AFTER
"""RabbitMQ takes a worker that is silent for so long for dead. It is silent while it works, so a shorter one would cut
off a long slice; a process that died is noticed by its socket at once."""

QUORUM = {"x-queue-type": "quorum"}
"""A task that such a queue confirmed is on the disks of most of its nodes."""

AHEAD = max(CREDITS[Pool(step)].kept for step in PHONES)
"""Tasks of P0 that a worker of phones may hold: all that there may be beside a crowd's."""

WORKER_ANSWER_WITHIN = 5.0
"""Seconds; a worker that gives up too early only loses its connection."""


class Patient(Connection):
    """Looks for a lost broker for ever, and soon: the usual pause grows to half a minute, P0 has one second."""

    def get_transport_cls(self) -> Any:
        usual: Callable[..., Any] = super().get_transport_cls
        transport = usual()
        return TidyTransport if transport is redis.Transport else transport

    def _ensure_connection(self, errback: Any = None, max_retries: Any = None, *_: Any, **options: Any) -> Any:
        pace = {"interval_start": 0.1, "interval_step": 0.2, "interval_max": 1.0}
        connect: Callable[..., Any] = super()._ensure_connection
        return connect(errback, max_retries, **{**options, **pace})


def on_redis(url: str) -> Mapping[Pool, str]:
    """The brokers of all pools on one Redis: a database each."""
    parts = split(url)
    return {pool: urlunsplit(parts._replace(path=f"/{number}")) for pool, number in DATABASES.items()}


class Ahead(Queue):
    """A queue of RabbitMQ whose tasks pass those of the others that its worker listens to.

    RabbitMQ knows no order between queues, and its quorum queues none within. But what it sends comes in the order of
    its sending: a worker takes as many of these as there may be, and of the others one at a time, so that they are on
    the way to it before the next of those is.
    """

    def consume(self, *args: Any, **options: Any) -> Any:
        # What is said of a channel counts for those who begin to listen after it.
        channel: Any = self.channel
        consume: Callable[..., Any] = super().consume
        channel.basic_qos(0, AHEAD, False)
        tag = consume(*args, **options)
        channel.basic_qos(0, 1, False)
        return tag


def queue_names(pool: Pool) -> tuple[str, ...]:
    """Of a pool's tasks, those that pass first; on Redis a worker looks into them in the order of the alphabet."""
    name = f"notifier.{pool}"
    return (f"notifier.p0.{pool}", name) if pool in map(Pool, PHONES) else (name,)


def queue_of(piece: Slice) -> str:
    return queue_names(piece.pool)[0 if piece.passes else -1]


def application(
    broker: str, pool: Pool, *, answer_within: float = WORKER_ANSWER_WITHIN, metrics: Metrics | None = None
) -> Celery:
    """On the pool's own broker; connects to nothing yet. With metrics it counts the garbage that it discards there.

    The same settings make the producer and the worker, so that they can't disagree.
    """
    # Named after its one task, so that the host needs no other source for the name.
    app = Celery(TASK, set_as_current=False)
    app.amqp.Connection = Patient
    queues = _queues(broker, pool)
    name = queues[-1].name
    app.conf.update(
        broker_url=broker,
        result_backend=None,
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        # The nameless exchange leads to the queue of that name without a binding, which a wiped Redis would forget.
        task_queues=queues,
        task_default_queue=name,
        task_default_exchange="",
        task_default_exchange_type="direct",
        task_default_routing_key=name,
        task_create_missing_queues=False,
        task_serializer="json",
        accept_content=["json"],
        # Acknowledged when it is done, also when it raised: the ledger decides what is tried again, not the queue.
        task_acks_late=True,
        task_acks_on_failure_or_timeout=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        task_send_sent_event=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # For RabbitMQ: of a quorum queue the prefetch is each consumer's own, and asking otherwise ends the connection.
        worker_detect_quorum_queues=not is_redis(broker),
        task_publish_retry=False,
        broker_heartbeat=HEARTBEAT.total_seconds(),
        broker_connection_timeout=ANSWER_WITHIN,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_pool_limit=1,
        broker_transport_options=_transport_options(
            broker, answer_within, BrokerKeys.of(queue_names(pool), metrics.garbage if metrics else None)
        ),
    )
    return app


def is_redis(broker: str) -> bool:
    return split(broker).scheme in {"redis", "rediss"}


def declaration(broker: str) -> dict[str, Any]:
    """Of a queue; the worker declares the same, and RabbitMQ refuses whoever declares another."""
    return {"durable": True, "auto_delete": False, "arguments": None if is_redis(broker) else QUORUM}


def _queues(broker: str, pool: Pool) -> list[Queue]:
    """Those that pass first. Without an exchange of their own: the nameless one leads to them."""
    *ahead, name = queue_names(pool)
    usual: Callable[..., Queue] = Queue
    passing: Callable[..., Queue] = Queue if is_redis(broker) else Ahead
    arguments = None if is_redis(broker) else QUORUM
    made = [passing(each, routing_key=each, queue_arguments=arguments) for each in ahead]
    return [*made, usual(name, routing_key=name, queue_arguments=arguments)]


def _transport_options(broker: str, answer_within: float, keys: BrokerKeys) -> dict[str, Any]:
    if not is_redis(broker):
        return {"read_timeout": answer_within, "write_timeout": answer_within}
    return {
        OPTION: keys,
        "visibility_timeout": VISIBILITY.total_seconds(),
        "socket_timeout": answer_within,
        "socket_connect_timeout": ANSWER_WITHIN,
        "socket_keepalive": True,
        "health_check_interval": 10,
        # No priorities: four lists to look into for each pop. What passes has a queue of its own, which is looked into
        # first: the usual order is by turns.
        "priority_steps": [0],
        "queue_order_strategy": "sorted",
    }
