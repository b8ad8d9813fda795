"""The template: a process that has imported what the roles need, and of which each role begins as a copy (a fork).

`copies.py` runs it, for one `notifier up`, and asks it on its standard input. Linux alone.
"""

import gc
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from socket import recv_fds, socket
from time import monotonic, sleep

from notifier.cli.supervisor.linux import ended_with, entitle
from notifier.config import replace_environment

READY = b"ready"
ALONE = b"alone"
"""The kernel gave the copy to somebody else."""
LONGEST = 1 << 20
"""Bytes of a request; the kernel passes on a fifth of that."""
ADOPTED_WITHIN = 2.0
"""Seconds; it takes microseconds."""

MODULES = (
    "notifier.__main__",
    "notifier.api.server",
    "notifier.cli.supervisor.pid_files",
    "notifier.cli.commands.fake",
    "notifier.cli.context",
    "notifier.cli.supervisor.pump_process",
    "workers.host",
    "workers.watchdog",
)
"""What the roles import when they begin, as far as one of them needs half a second for it."""
OF_PROFILE: Mapping[str, Sequence[str]] = {"cluster": ("notifier.profiles.cluster",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    words: Sequence[str]
    """Of `notifier`."""
    environment: Mapping[str, str]

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def main(profile: str, parent: int) -> None:
    """Returns when `up` is gone; in a copy, when its role has ended."""
    ended_with(parent)
    entitle([sys.executable, "-m", __spec__.name, profile, str(parent)])
    with socket(fileno=os.dup(0)) as channel:
        for module in (*MODULES, *OF_PROFILE.get(profile, ())):
            import_module(module)
        _settle()
        request = _serve(channel, parent)
    if request:
        _become(request)


def _settle() -> None:
    """Raises RuntimeError where an import has left something that a copy couldn't have."""
    if threading.active_count() > 1 or len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("An import has started a thread, and a fork would have no such thread.")
    gc.collect()
    gc.freeze()  # a collection that walked through what is shared would make a copy of it


def _serve(channel: socket, parent: int) -> Request | None:
    """Comes back in each copy with its request, and in the template itself with none, when nobody asks any more."""
    channel.send(READY)
    while True:
        packet, streams, *_ = recv_fds(channel, LONGEST, 1)
        if not packet:
            return None
        if _copied():
            _report(channel, parent)
            _write_to(streams[0])
            return Request(**json.loads(packet))
        os.close(streams[0])


def _copied() -> bool:
    """Whether this is the copy. Raises OSError where the machine has no more processes.

    It is forked by a process of a moment, whose orphans the kernel gives to the nearest one above that adopts: `up`. So
    all is as if `up` had started it, and nobody misses a template that dies.
    """
    if between := os.fork():
        if os.waitpid(between, 0)[1]:
            raise OSError("There was no second fork.")
        return False
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        os._exit(1)
    return True


def _report(channel: socket, parent: int) -> None:
    """Ends the copy where nobody would know of it."""
    os.setsid()
    try:
        channel.send(str(os.getpid()).encode() if _adopted(parent) else ALONE)
    except OSError:  # it was late, and is no longer waited for
        os._exit(1)
    if os.getppid() != parent:
        os._exit(1)


def _adopted(parent: int) -> bool:
    deadline = monotonic() + ADOPTED_WITHIN
    while os.getppid() != parent and monotonic() < deadline:
        sleep(0.0002)
    return os.getppid() == parent


def _write_to(log: int) -> None:
    """As every role: nothing on the standard input, and the rest to its log."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)


def _become(request: Request) -> None:
    from notifier import __main__ as notifier

    replace_environment(request.environment)
    sys.argv = [str(Path(notifier.__file__)), *request.words]
    entitle([sys.executable, "-m", "notifier", *request.words])
    notifier.run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
