"""Celery applications, one for each pool, with all their settings.

Celery only wakes workers. The ledger holds the work, so all Celery features that store, repeat or schedule work are
switched off.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlunsplit

from celery import Celery
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.transport import redis

from notifier.adapters.celery.transport import OPTION, TASK, BrokerKeys, TidyTransport
from notifier.config.field import split_url
from notifier.domain.delivery.scheduling import POOL_CREDITS
from notifier.domain.delivery.slice import PUSH_STEPS, TIME_SHARE, Pool, Slice
from notifier.metrics import Metrics

DATABASES = {Pool.P0: 1, Pool.P1: 2, Pool.P2: 3, Pool.APNS: 4, Pool.FCM: 5, Pool.WEB: 6}
"""Redis database of each pool. Pools that share a database would restore each other's running tasks.

Database 0 is for all other data.
"""

VISIBILITY_TIMEOUT = 5 * TIME_SHARE
"""Time after which Redis redelivers a held task.

No slice is held longer than HAND_BACK_AFTER, so the task belongs to a dead worker, and the ledger queued it again long
ago. Redelivery only cleans up; the duplicate finds nothing to do.
"""

ANSWER_TIMEOUT = 1.0
"""Timeout of queueing in seconds. Unsent tasks are queued again from the ledger."""

HEARTBEAT = 2 * TIME_SHARE
"""Time without a heartbeat after which RabbitMQ considers a worker dead.

A worker sends no heartbeat while it works, so a shorter time would disconnect it during a long slice. A dead process
is detected at once by its socket.
"""

QUORUM = {"x-queue-type": "quorum"}
"""Arguments of a quorum queue. A task that it confirmed is on the disks of a majority of its nodes."""

MAX_PRIORITY_TASKS = max(POOL_CREDITS[Pool(step)].reserved_slices for step in PUSH_STEPS)
"""P0 tasks that a push worker may prefetch: the whole credit that is reserved for them beside bulk slices."""

WORKER_ANSWER_WITHIN = 5.0
"""Timeout of a worker's connection in seconds. A worker that times out too early only loses its connection."""


class PatientConnection(Connection):
    """Connection that reconnects forever, at intervals of at most one second.

    The default interval grows to half a minute, but P0 work must start within one second.
    """

    def get_transport_cls(self) -> Any:
        original: Callable[..., Any] = super().get_transport_cls
        transport = original()
        return TidyTransport if transport is redis.Transport else transport

    def _ensure_connection(self, errback: Any = None, max_retries: Any = None, *_: Any, **options: Any) -> Any:
        pace = {"interval_start": 0.1, "interval_step": 0.2, "interval_max": 1.0}
        connect: Callable[..., Any] = super()._ensure_connection
        return connect(errback, max_retries, **{**options, **pace})


def on_redis(url: str) -> Mapping[Pool, str]:
    """Return the broker URLs of all pools on one Redis server, one database each."""
    parts = split_url(url)
    return {pool: urlunsplit(parts._replace(path=f"/{number}")) for pool, number in DATABASES.items()}


class PriorityQueue(Queue):
    """RabbitMQ queue whose tasks overtake those of the worker's other queues.

    RabbitMQ has no order between queues, and its quorum queues have none within. But messages arrive in the order in
    which they are sent. A worker prefetches all tasks of this queue, and one task at a time of the others. So tasks of
    this queue are already on their way before the next one of another queue is sent.
    """

    def consume(self, *args: Any, **options: Any) -> Any:
        # The prefetch of a channel applies to consumers that start after it was set.
        channel: Any = self.channel
        consume: Callable[..., Any] = super().consume
        channel.basic_qos(0, MAX_PRIORITY_TASKS, False)
        tag = consume(*args, **options)
        channel.basic_qos(0, 1, False)
        return tag


def queue_names(pool: Pool) -> tuple[str, ...]:
    """Return the queue names of a pool, the one with priority first.

    On Redis a worker polls its queues in alphabetical order.
    """
    name = f"notifier.{pool}"
    return (f"notifier.p0.{pool}", name) if pool in map(Pool, PUSH_STEPS) else (name,)


def queue_name_of(slice_: Slice) -> str:
    return queue_names(slice_.pool)[0 if slice_.has_priority else -1]


def application(
    broker: str, pool: Pool, *, answer_within: float = WORKER_ANSWER_WITHIN, metrics: Metrics | None = None
) -> Celery:
    """Create the application of a pool on its broker, without connecting.

    Producers and workers use the same settings, so they cannot disagree. With metrics, the application counts the
    garbage that it discards from the broker.
    """
    # Named after its only task, so that the host can take the task name from the application.
    app = Celery(TASK, set_as_current=False)
    app.amqp.Connection = PatientConnection
    queues = _queues(broker, pool)
    name = queues[-1].name
    app.conf.update(
        broker_url=broker,
        result_backend=None,
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        # The default exchange routes by queue name. It needs no binding, which a wiped Redis would lose.
        task_queues=queues,
        task_default_queue=name,
        task_default_exchange="",
        task_default_exchange_type="direct",
        task_default_routing_key=name,
        task_create_missing_queues=False,
        task_serializer="json",
        accept_content=["json"],
        # Acknowledge a task when it ends, even with an error: the ledger decides about retries, not the queue.
        task_acks_late=True,
        task_acks_on_failure_or_timeout=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        task_send_sent_event=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # RabbitMQ quorum queues only allow a prefetch per consumer; a global prefetch would end the connection.
        worker_detect_quorum_queues=not is_redis(broker),
        task_publish_retry=False,
        broker_heartbeat=HEARTBEAT.total_seconds(),
        broker_connection_timeout=ANSWER_TIMEOUT,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_pool_limit=1,
        broker_transport_options=_transport_options(
            broker, answer_within, BrokerKeys.of(queue_names(pool), metrics.cache_garbage if metrics else None)
        ),
    )
    return app


def is_redis(broker: str) -> bool:
    return split_url(broker).scheme in {"redis", "rediss"}


def declaration(broker: str) -> dict[str, Any]:
    """Return the arguments of a queue declaration.

    Workers declare the same queues, and RabbitMQ refuses a declaration with other arguments.
    """
    return {"durable": True, "auto_delete": False, "arguments": None if is_redis(broker) else QUORUM}


def _queues(broker: str, pool: Pool) -> list[Queue]:
    """Return the queues of a pool, the one with priority first. They use the default exchange."""
    *priority_queue, name = queue_names(pool)
    bulk: Callable[..., Queue] = Queue
    priority: Callable[..., Queue] = Queue if is_redis(broker) else PriorityQueue
    arguments = None if is_redis(broker) else QUORUM
    queues = [priority(queue, routing_key=queue, queue_arguments=arguments) for queue in priority_queue]
    return [*queues, bulk(name, routing_key=name, queue_arguments=arguments)]


def _transport_options(broker: str, answer_within: float, keys: BrokerKeys) -> dict[str, Any]:
    if not is_redis(broker):
        return {"read_timeout": answer_within, "write_timeout": answer_within}
    return {
        OPTION: keys,
        "visibility_timeout": VISIBILITY_TIMEOUT.total_seconds(),
        "socket_timeout": answer_within,
        "socket_connect_timeout": ANSWER_TIMEOUT,
        "socket_keepalive": True,
        "health_check_interval": 10,
        # No kombu priorities: each pop would check four lists. Priority tasks have their own queue, which is polled
        # first because of the sorted order; the default order is round-robin.
        "priority_steps": [0],
        "queue_order_strategy": "sorted",
    }
