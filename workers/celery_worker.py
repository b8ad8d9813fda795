"""Celery worker process: consumes the queue of one pool until it is stopped."""

import logging
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar

from celery import Celery
from celery.exceptions import Reject
from celery.worker import WorkController, state
from celery.worker.consumer import Consumer
from celery.worker.request import Request

from notifier.domain.delivery.slice_and_pool import Pool
from workers.gc_and_watchdogs import MAX_SILENCE, Watchdog, make_gc_rare
from workers.slice_runner_and_pools import POOLS, Handler, Runner


class StrictAckRequest(Request):  # type: ignore[misc]  # Celery has no types
    """A task request that raises an error when its acknowledgement fails. The worker then reconnects.

    Celery's own request only logs the failure, and the task keeps counting against the prefetch limit of the queue.
    With a limit of one task, the worker receives no more tasks. This happened in three of ten trials in which the
    broker died between a task and its acknowledgement.
    """

    acknowledged: bool

    def acknowledge(self) -> None:
        if not self.acknowledged:
            self._message.ack()
            self.acknowledged = True


class PlainConsumer(Consumer):  # type: ignore[misc]  # Celery has no types
    """Celery's consumer without delayed delivery, which would create dozens of queues in RabbitMQ."""

    class Blueprint(Consumer.Blueprint):  # type: ignore[misc]  # as above
        default_steps: ClassVar = [step for step in Consumer.Blueprint.default_steps if "delayed_delivery" not in step]


log = logging.getLogger(__name__)

BEAT_INTERVAL = 1.0
"""Seconds between heartbeats."""


HandlerFactory = Callable[[Callable[[], None], Callable[[], bool]], Handler]
"""Builds the handler of slices from two functions: `beat`, and a check whether the worker process is stopping.

The handler calls `beat` while its slice makes progress. Once the process is stopping, the handler hands the slice back.
"""


def run(
    pool: Pool,
    handler_factory: HandlerFactory,
    app: Celery,
    ready: Callable[[], None] = lambda: None,
    beat: Callable[[], None] = lambda: None,
    *,
    max_silence: float = MAX_SILENCE,
) -> None:
    """Consume the queue of the pool until SIGTERM or SIGINT. Call it in the main thread, once per process.

    The handler is built here, and nothing forks afterwards, so the handler's sessions belong to this process. If the
    broker goes away, the process tries to reconnect without limit.

    `ready` is called when the consumer is connected to its queue. `beat` is called every second while the process waits
    for tasks, and after a failed attempt to connect. During a slice the handler calls `beat`. After `max_silence`
    seconds without a call of `beat` the process exits.
    """
    os.nice(POOLS[pool].niceness)
    watchdog = Watchdog(beat, max_silence)
    runner = Runner(handler_factory(watchdog.beat, _is_stopping))

    def work(slice_name: str) -> None:
        # Celery still delivers prefetched tasks while the process stops.
        if _is_stopping():
            raise Reject(requeue=True)
        runner(slice_name)  # Celery needs no result: the dispatcher reads the ledger.

    app.task(work, name=app.main, Request=StrictAckRequest)
    app.amqp.Connection = _with_heartbeat(app.amqp.Connection, watchdog.beat)
    worker_name = f"{pool}.{os.getpid()}@notifier"
    # Worker processes don't need to know each other, and `mingle` alone would make every start a second longer.
    standalone_options = {"without_mingle": True, "without_gossip": True, "without_heartbeat": True}
    worker = WorkController(
        app=app,
        consumer_cls=PlainConsumer,
        # Run tasks in this process and thread, where Celery's own time limits don't apply. A child process would only
        # add a pipe, 44 MB of memory and another way to lose a task.
        pool_cls="solo",
        concurrency=1,
        hostname=worker_name,
        ready_callback=lambda _: ready(),
        **standalone_options,
    )
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, _stop)
    # This timer runs in the consumer's loop. A timer that is set before the first connection survives every reconnect.
    worker.timer.call_repeatedly(BEAT_INTERVAL, watchdog.beat)
    watchdog.start()
    make_gc_rare()
    log.info("pool %s started", pool)
    worker.start()
    log.info("pool %s stopped", pool)


def _with_heartbeat(connection_class: Any, beat: Callable[[], None]) -> Any:
    """Return a connection class that calls `beat` after a failed attempt to connect.

    While the process tries to connect, neither the consumer's loop nor its heartbeat timer runs.
    """

    class HeartbeatConnection(connection_class):  # type: ignore[misc]  # Celery and kombu have no types
        def _ensure_connection(self, *args: Any, callback: Callable[[], None] | None = None, **options: Any) -> Any:
            def after_attempt() -> None:
                beat()
                if callback:
                    callback()

            return super()._ensure_connection(*args, callback=after_attempt, **options)

    return HeartbeatConnection


def _stop(signal_number: int, frame: FrameType | None) -> None:
    # Celery checks this variable between two tasks. The handler checks it during a slice, and hands the slice back.
    state.should_stop = 0  # an exit code; None means that the process is not stopping


def _is_stopping() -> bool:
    return state.should_stop is not None
