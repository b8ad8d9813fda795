"""Takes an engine's files out of memory, as if it had less than it stores. Linux, and who may do so."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from notifier.domain.errors import Environment
from services.engine import Engine

_PROCESS_MADVISE, _PAGEOUT = 440, 21
"""Linux's number of the call, and what is asked for."""


class _Range(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_void_p), ("length", ctypes.c_size_t))


def page_out(engine: Engine) -> None:
    """What the engine has mapped of its tables. Raises Environment where that isn't allowed."""
    assert engine.pid is not None, engine.last_words()
    libc, process = ctypes.CDLL(None, use_errno=True), os.pidfd_open(engine.pid)
    try:
        for begin, end in _mapped(engine.pid, engine.folder):
            one = _Range(begin, end - begin)
            if libc.syscall(_PROCESS_MADVISE, process, ctypes.byref(one), 1, _PAGEOUT, 0) < 0:
                said = os.strerror(ctypes.get_errno())
                raise Environment(f"Pages of {engine.name} can't be taken out of memory: {said}.")
    finally:
        os.close(process)


def _mapped(pid: int, folder: Path) -> Iterator[tuple[int, int]]:
    with closing(Path(f"/proc/{pid}/maps").open()) as maps:
        for line in maps:
            place, *_, file = line.split(maxsplit=5)
            if f"{folder}/data/" in file:
                begin, end = place.split("-")
                yield int(begin, 16), int(end, 16)
