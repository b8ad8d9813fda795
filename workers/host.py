"""The Celery host: one process that works on one pool's queue until it is told to stop."""

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

from notifier.domain.delivery.slice import Pool
from workers.runner import POOLS, Handler, Runner
from workers.watchdog import SILENT_FOR, Watch, seldom

# A task's request whose acknowledgement fails aloud, so that the worker connects anew.


class Acknowledging(Request):  # type: ignore[misc]  # Celery has no types
    """Celery only logs an acknowledgement that the broker didn't take, and goes on counting the task as held.

    At a prefetch of one that leaves the worker deaf for ever, idle and connected to nothing: a broker that died between
    a task and its acknowledgement did that in three of ten tries.
    """

    acknowledged: bool

    def acknowledge(self) -> None:
        if not self.acknowledged:
            self._message.ack()
            self.acknowledged = True


# Celery's consumer without the part that would schedule tasks by itself, for which RabbitMQ gets dozens of queues.


class Consuming(Consumer):  # type: ignore[misc]  # Celery has no types
    class Blueprint(Consumer.Blueprint):  # type: ignore[misc]  # as above
        default_steps: ClassVar = [step for step in Consumer.Blueprint.default_steps if "delayed_delivery" not in step]


log = logging.getLogger(__name__)

BEATS_EVERY = 1.0
"""Seconds."""


HandlerFactory = Callable[[Callable[[], None], Callable[[], bool]], Handler]
"""Is given what the handler has to call while a slice makes progress, and what tells that it has to hand it back."""


def run(
    pool: Pool,
    handler_factory: HandlerFactory,
    app: Celery,
    ready: Callable[[], None] = lambda: None,
    beat: Callable[[], None] = lambda: None,
    *,
    silent_for: float = SILENT_FOR,
) -> None:
    """Returns after SIGTERM or SIGINT, once the handler has come back; a task that waits here goes back.

    The handler is made here and now, and nothing forks afterwards, so its sessions belong to this process. A broker
    that goes away, or comes back empty, is waited for, for ever. To be called in the main thread, once in a process.
    Calls `ready` when the queue is listened to, and `beat` every second while it listens or looks for its broker; in a
    slice the handler has to, and the process ends when it doesn't for `silent_for` seconds.
    """
    os.nice(POOLS[pool].niceness)
    watch = Watch(beat, silent_for)
    runner = Runner(handler_factory(watch.beat, _stopping))

    def work(piece: str) -> None:
        # What was taken ahead comes here even while the worker stops.
        if _stopping():
            raise Reject(requeue=True)
        runner(piece)  # Celery is told nothing: the outcome stands in the ledger.

    app.task(work, name=app.main, Request=Acknowledging)
    app.amqp.Connection = _beating(app.amqp.Connection, watch.beat)
    # Tasks run in this very process and thread, which Celery's own time limits don't reach: a child would only add a
    # pipe, 44 MB and a way to be lost.
    name = f"{pool}.{os.getpid()}@notifier"
    # Nobody is asked who else is there: mingling alone would make every start a second longer.
    alone = {"without_mingle": True, "without_gossip": True, "without_heartbeat": True}
    host = WorkController(
        app=app,
        consumer_cls=Consuming,
        pool_cls="solo",
        concurrency=1,
        hostname=name,
        ready_callback=lambda _: ready(),
        **alone,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    # Called by the loop that consumes; what is on this timer before the first connection outlives every connection.
    host.timer.call_repeatedly(BEATS_EVERY, watch.beat)
    watch.start()
    seldom()
    log.info("Pool %s works.", pool)
    host.start()
    log.info("Pool %s has stopped.", pool)


def _beating(connection: Any, beat: Callable[[], None]) -> Any:
    """The class of connections, beating after every failed try: without a broker the worker's loop stands still."""

    class Beating(connection):  # type: ignore[misc]  # Celery and kombu have no types
        def _ensure_connection(self, *args: Any, callback: Callable[[], None] | None = None, **options: Any) -> Any:
            def tried() -> None:
                beat()
                if callback:
                    callback()

            return super()._ensure_connection(*args, callback=tried, **options)

    return Beating


def _stop(number: int, frame: FrameType | None) -> None:
    # Looked at between two tasks, and by the handler, which hands back what is under way.
    state.should_stop = 0


def _stopping() -> bool:
    return state.should_stop is not None
