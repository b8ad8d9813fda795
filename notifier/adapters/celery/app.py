"""Celery applications, one for each pool.

Celery only wakes workers. The ledger holds the work, so Celery must not store results, repeat tasks or schedule tasks.
"""

from collections.abc import Callable
from typing import Any

from celery import Celery
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.transport import redis

from notifier.adapters.celery.garbage_deleting_transport import (
    EXPECTED_KEY_TYPES_OPTION,
    TASK_NAME,
    ExpectedKeyTypes,
    GarbageDeletingTransport,
)
from notifier.config.setting_field import split_url
from notifier.domain.delivery.scheduling import POOL_CREDITS
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, TIME_SHARE, Pool, Slice
from notifier.metrics import Metrics

VISIBILITY_TIMEOUT = 5 * TIME_SHARE
"""Time after which kombu puts an unacknowledged task back into its Redis queue.

A worker hands a slice back after TIME_SHARE, so a task that stays unacknowledged for this long probably belongs to a
dead worker. Normally the slice was queued again from the ledger long before, and the restored task finds nothing to do.
"""

PRODUCER_TIMEOUT = 1.0
"""Seconds that a producer waits for the broker, and that any process waits for a connection.

Unsent tasks are queued again from the ledger.
"""

HEARTBEAT_TIMEOUT = 2 * TIME_SHARE
"""Time without a heartbeat after which RabbitMQ considers a worker dead.

A worker sends no heartbeat while it works, so a shorter time would disconnect the worker during a long slice. A dead
process is usually detected sooner, because its socket is closed.
"""

QUORUM_ARGUMENTS = {"x-queue-type": "quorum"}
"""Arguments of a quorum queue, which confirms a task once a majority of the queue's nodes has stored the task."""

MAX_PRIORITY_TASKS = max(POOL_CREDITS[Pool(step)].reserved_slices for step in PUSH_STEPS)
"""P0 tasks that a push worker may prefetch: the whole credit that the dispatcher reserves for P0 slices."""

WORKER_TIMEOUT = 5.0
"""Seconds that a worker waits for the broker. After a timeout the worker only has to connect again."""


class BrokerConnection(Connection):
    """Connection that waits at most a second between attempts to connect, and that deletes garbage from Redis.

    Kombu's default interval grows to half a minute, but P0 work must start within one second.
    """

    def get_transport_cls(self) -> Any:
        get_transport_class: Callable[..., Any] = super().get_transport_cls
        transport_class = get_transport_class()
        return GarbageDeletingTransport if transport_class is redis.Transport else transport_class

    def _ensure_connection(self, errback: Any = None, max_retries: Any = None, *_: Any, **options: Any) -> Any:
        retry_intervals = {"interval_start": 0.1, "interval_step": 0.2, "interval_max": 1.0}
        connect: Callable[..., Any] = super()._ensure_connection
        return connect(errback, max_retries, **{**options, **retry_intervals})


class PriorityQueue(Queue):
    """RabbitMQ queue whose tasks overtake those of the worker's other queues.

    RabbitMQ delivers its queues in no particular order, and quorum queues have no priorities before version 4. A worker
    prefetches MAX_PRIORITY_TASKS tasks of this queue, and only one of a normal queue. So tasks of this queue are in the
    worker already when the worker asks for the next normal task.
    """

    def consume(self, *args: Any, **options: Any) -> Any:
        # A prefetch count applies to the consumers of the channel that start after it was set.
        channel: Any = self.channel
        consume: Callable[..., Any] = super().consume
        channel.basic_qos(0, MAX_PRIORITY_TASKS, False)
        tag = consume(*args, **options)
        channel.basic_qos(0, 1, False)
        return tag


def queue_names(pool: Pool) -> tuple[str, ...]:
    """Return the queue names of a pool, the priority queue first.

    The names must also be in alphabetical order, because on Redis a worker polls its queues in that order.
    """
    name = f"notifier.{pool}"
    return (f"notifier.p0.{pool}", name) if pool in map(Pool, PUSH_STEPS) else (name,)


def queue_name_for(slice_: Slice) -> str:
    return queue_names(slice_.pool)[0 if slice_.has_priority else -1]


def celery_app(broker: str, pool: Pool, *, timeout: float = WORKER_TIMEOUT, metrics: Metrics | None = None) -> Celery:
    """Create the application of a pool on its broker, without connecting.

    With `metrics`, the application counts the garbage that it deletes from the broker.
    """
    # Named after its only task: `workers/celery_worker.py` gets the name of the task from the application.
    app = Celery(TASK_NAME, set_as_current=False)
    app.amqp.Connection = BrokerConnection
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
        broker_heartbeat=HEARTBEAT_TIMEOUT.total_seconds(),
        broker_connection_timeout=PRODUCER_TIMEOUT,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_pool_limit=1,
        broker_transport_options=_transport_options(
            broker, timeout, ExpectedKeyTypes.for_queues(queue_names(pool), metrics.redis_garbage if metrics else None)
        ),
    )
    return app


def is_redis(broker: str) -> bool:
    return split_url(broker).scheme in {"redis", "rediss"}


def declaration_options(broker: str) -> dict[str, Any]:
    """Return the options of a queue declaration.

    Workers declare the same queues, and RabbitMQ refuses a declaration with different arguments.
    """
    return {"durable": True, "auto_delete": False, "arguments": None if is_redis(broker) else QUORUM_ARGUMENTS}


def _queues(broker: str, pool: Pool) -> list[Queue]:
    """Return the queues of a pool, the priority queue first."""
    *priority_names, name = queue_names(pool)
    queue_class: Callable[..., Queue] = Queue
    priority_queue_class: Callable[..., Queue] = Queue if is_redis(broker) else PriorityQueue
    arguments = None if is_redis(broker) else QUORUM_ARGUMENTS
    return [
        *(
            priority_queue_class(priority_name, routing_key=priority_name, queue_arguments=arguments)
            for priority_name in priority_names
        ),
        queue_class(name, routing_key=name, queue_arguments=arguments),
    ]


def _transport_options(broker: str, timeout: float, expected_key_types: ExpectedKeyTypes) -> dict[str, Any]:
    if not is_redis(broker):
        return {"read_timeout": timeout, "write_timeout": timeout}
    return {
        EXPECTED_KEY_TYPES_OPTION: expected_key_types,
        "visibility_timeout": VISIBILITY_TIMEOUT.total_seconds(),
        "socket_timeout": timeout,
        "socket_connect_timeout": PRODUCER_TIMEOUT,
        "socket_keepalive": True,
        "health_check_interval": 10,
        # One list for each queue: with the priorities of kombu, each pop would check four lists. Priority tasks have
        # their own queue instead. A worker polls it first, because queue names are sorted.
        "priority_steps": [0],
        "queue_order_strategy": "sorted",
    }
