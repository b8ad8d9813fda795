"""What Linux alone does for processes: who adopts orphans, who ends with whom, and what `ps` shows."""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ARG_START = 45
"""The 48th field of /proc/PID/stat, behind the name and the two before it; the next is where the arguments end."""


@contextmanager
def adopting() -> Iterator[None]:
    """Orphans below this process become its children, while the block lasts."""
    _control(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _control(PR_SET_CHILD_SUBREAPER, 0)


def ended_with(parent: int) -> None:
    """From now on this process is killed when its parent's main thread ends."""
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # that was before
        os.kill(os.getpid(), signal.SIGKILL)


def entitle(words: Sequence[str]) -> None:
    """Others see these words as the command line, as far as there is room: they are written over the one it has.

    The interpreter has made copies of those words before anything else.
    """
    if sys.platform != "linux":
        return
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = (int(field) for field in fields[ARG_START : ARG_START + 2])
    if 0 < begin < end:
        room = end - begin
        ctypes.memmove(begin, line[: room - 1].ljust(room, b"\0"), room)


def _control(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)
