"""A process that ends when the one that started it does, however that one ended."""

import os
import signal
from threading import Event, Thread

LOOK_EVERY = 0.5
"""Seconds; asking costs a microsecond. Linux could send a signal instead, but when the parent's *thread* ends."""

FINISH_WITHIN = 10.0
"""Seconds for what is under way; then the process goes at once, and the ledger queues its slice again."""


def end_with_parent() -> None:
    """Asks this process to end in the orderly way once its parent is gone, and makes it end soon after."""
    parent = os.getppid()
    Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    never = Event()
    while os.getppid() == parent:
        never.wait(LOOK_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)
    never.wait(FINISH_WITHIN)
    os._exit(1)
