"""The garbage collector of a process that has thousands of messages on their way: it comes seldom."""

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

YOUNG, MIDDLE, OLD = 20_000, 50, 100
"""New objects before a look at the young; looks before one at the older ones. As shipped, with 700, a third of the time
that a worker spent on rows for Cassandra went to looking at messages that were still on their way."""


def seldom() -> None:
    """And never again at what is there now: modules and what they hold."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)


# A process that never outlives the one that started it, even when that one is killed without a word.

PR_SET_PDEATHSIG = 1
PARENT_EVERY = 0.25
"""Seconds; where the kernel doesn't tell, this is how long a child may be an orphan."""
GRACE = 2.0
"""Seconds for what is under way; then the process goes at once, and the ledger queues its slice again."""


def end_with(parent: int) -> None:
    """To be called first thing by a child, in its main thread. Asks it to end in the orderly way, and then makes it.

    For children of a parent's main thread: the kernel tells of the end of a thread, not of a process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    # Looked at after the kernel was asked: a parent that died before that is noticed here.
    threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    # Still here: whatever it waits for, and its own children where it leads its group, end now.
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


# The hard limit: a worker that hangs in a slice ends itself, so that whoever runs it starts it anew.

log = logging.getLogger(__name__)

SILENT_FOR = 90.0
"""Seconds. A slice that only takes long is handed back after 60 (the soft limit), and `up` ends a role that is silent
for 60, which its screen tells; this is for a worker that nobody watches."""

LOOKS_EVERY = 0.5
AWAY_FOR = 5.0
"""Seconds between two looks: then the process was stopped or the machine slept, and the worker had no more time."""

EXIT_CODE = 70
"""EX_SOFTWARE."""


class Watch:
    """Python's own threads must run: who holds the interpreter for ever is seen by `up` alone."""

    def __init__(self, beat: Callable[[], None], silent_for: float = SILENT_FOR) -> None:
        self._beat = beat
        self._silent_for = silent_for
        self._heard_at = 0.0

    def beat(self) -> None:
        self._heard_at = time.monotonic()
        self._beat()

    def start(self) -> None:
        self._heard_at = time.monotonic()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def _watch(self) -> None:
        looked_at = time.monotonic()
        while True:
            time.sleep(LOOKS_EVERY)
            now = time.monotonic()
            if now > looked_at + AWAY_FOR:
                self._heard_at = now
            looked_at = now
            if now >= self._heard_at + self._silent_for:
                # In the middle of whatever it is: the claim runs out, and the ledger queues the slice again.
                log.critical("No progress for %g s: this process ends.", self._silent_for)
                os._exit(EXIT_CODE)
