"""The Celery host: one process that works on one pool's queue until it is told to stop or its parent is gone."""

import logging
import os
import signal
from collections.abc import Callable
from types import FrameType

from celery import Celery
from celery.worker import WorkController, state

from notifier.domain.slice import Pool
from workers.acknowledging import Acknowledging
from workers.parent import end_with_parent
from workers.pools import POOLS
from workers.runner import Handler, Runner

log = logging.getLogger(__name__)


def run(
    pool: Pool, handler_factory: Callable[[], Handler], app: Celery, ready: Callable[[], None] = lambda: None
) -> None:
    """Returns after SIGTERM or SIGINT, with the slice under way finished; a task that waits here goes back.

    The handler is made here and now, so its sessions belong to this process. A broker that goes away, or comes back
    empty, is waited for, for ever. To be called in the main thread, once in a process. Calls `ready` when the queue is
    listened to.
    """
    os.nice(POOLS[pool].niceness)
    runner = Runner(handler_factory())

    def work(piece: str) -> None:
        runner(piece)  # Celery is told nothing: the outcome stands in the ledger.

    app.task(work, name=app.main, Request=Acknowledging)
    # Tasks run in this very process and thread: a child would only add a pipe, 44 MB and a way to be lost.
    name = f"{pool}.{os.getpid()}@notifier"
    # Nobody is asked who else is there: mingling alone would make every start a second longer.
    alone = {"without_mingle": True, "without_gossip": True, "without_heartbeat": True}
    host = WorkController(
        app=app, pool_cls="solo", concurrency=1, hostname=name, ready_callback=lambda _: ready(), **alone
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    end_with_parent()
    log.info("Pool %s works.", pool)
    host.start()
    log.info("Pool %s has stopped.", pool)


def _stop(number: int, frame: FrameType | None) -> None:
    # Looked at between two tasks: what is under way is finished first, and handed back by itself after a minute.
    state.should_stop = 0
