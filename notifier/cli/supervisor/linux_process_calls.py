"""Linux-specific system calls for processes."""

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
"""Index of `arg_start` in /proc/PID/stat, counted after the process name. `arg_end` follows."""


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Become the parent of each descendant whose own parent ends while the block lasts."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _prctl(PR_SET_CHILD_SUBREAPER, 0)


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, or when the parent's thread that started it ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call
        os.kill(os.getpid(), signal.SIGKILL)


def set_command_line(arguments: Sequence[str]) -> None:
    """Show these arguments in `ps`, so that operators can tell forked roles apart.

    Overwrites the memory that the kernel shows as the command line, and cuts off what doesn't fit. The interpreter
    copied its arguments from this memory when it started, and no longer needs it.
    """
    if sys.platform != "linux":
        return
    line = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = (int(field) for field in fields[ARG_START : ARG_START + 2])
    if 0 < begin < end:
        length = end - begin
        ctypes.memmove(begin, line[: length - 1].ljust(length, b"\0"), length)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)
