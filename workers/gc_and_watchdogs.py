"""Upkeep of a process: garbage collection, death of its parent, and a watchdog."""

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

GC_YOUNG, GC_MIDDLE, GC_OLD = 20_000, 50, 100
"""Thresholds of the garbage collector: objects per young collection, young collections per middle collection, and
middle collections per old collection.

With Python's default of 700, a worker that wrote rows to Cassandra spent a third of its time scanning messages that
were still in flight.
"""


def make_gc_rare() -> None:
    """Make garbage collections rare, and exempt all objects that exist now, such as modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG, GC_MIDDLE, GC_OLD)


# Parent death: a child process ends with its parent, even if the parent is killed.

PR_SET_PDEATHSIG = 1
PARENT_CHECK_INTERVAL = 0.25
"""Seconds between two checks of the parent."""
GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL, to finish work in progress. A slice that was cut off is queued again."""


def end_with_parent(parent_pid: int) -> None:
    """End this process when its parent ends: first with SIGTERM, then after a grace period with SIGKILL.

    A child calls this first, in its main thread. The parent must fork the child in its own main thread: the kernel
    sends the signal when the thread that forked ends, even if the parent process goes on.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    # The kernel sends no signal if the parent died before the system call. Polling detects that, too.
    threading.Thread(target=_watch_parent, args=(parent_pid,), name="parent", daemon=True).start()


def _watch_parent(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(PARENT_CHECK_INTERVAL)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    # SIGTERM did not end this process. If this process leads its group, kill its children as well.
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


# Watchdog: a worker process that hangs in a slice exits. Its supervisor then starts another one.

log = logging.getLogger(__name__)

MAX_SILENCE = 90.0
"""Seconds without a heartbeat after which a worker process ends itself.

This limit matters for workers without `up`, which kills a role after 60 seconds without a heartbeat.
"""

CHECK_INTERVAL = 0.5
"""Seconds between two checks of the heartbeat."""
SUSPENSION_SECONDS = 5.0
"""If two checks are further apart than this, the process or the machine was probably suspended.

A suspended process sends no heartbeat, so the watchdog counts its silence from the resumption.
"""

EXIT_CODE = 70
"""Exit code of a worker process that the watchdog ends: EX_SOFTWARE of sysexits.h."""


class Watchdog:
    """Ends this process when nothing has called `beat` for `max_silence` seconds.

    The watchdog is a Python thread, which can't run while some code holds the interpreter lock.
    """

    def __init__(self, beat: Callable[[], None], max_silence: float = MAX_SILENCE) -> None:
        self._beat = beat
        self._max_silence = max_silence
        self._last_beat_at = 0.0

    def beat(self) -> None:
        self._last_beat_at = time.monotonic()
        self._beat()

    def start(self) -> None:
        self._last_beat_at = time.monotonic()
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def _run(self) -> None:
        checked_at = time.monotonic()
        while True:
            time.sleep(CHECK_INTERVAL)
            now = time.monotonic()
            if now > checked_at + SUSPENSION_SECONDS:
                self._last_beat_at = now
            checked_at = now
            if now >= self._last_beat_at + self._max_silence:
                # Exit at once, whatever is in progress. The claim expires, and the slice is queued again.
                log.critical("no progress for %g s: this process exits", self._max_silence)
                os._exit(EXIT_CODE)
