"""A process that never outlives the one that started it, even when that one is killed without a word."""

import ctypes
import os
import signal
import sys
import threading
import time

PR_SET_PDEATHSIG = 1
LOOKS_EVERY = 0.25
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
        time.sleep(LOOKS_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    # Still here: whatever it waits for, and its own children where it leads its group, end now.
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
