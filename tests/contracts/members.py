"""Readers of the log begin as copies (forks) of one process that has imported what they need, a hundred in a run.

It is asked on its standard input, ends with whoever asks, and runs nothing itself: what it forks has no thread to lose.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import cache
from socket import AF_UNIX, SOCK_SEQPACKET, recv_fds, send_fds, socket, socketpair

from psutil import Process

from notifier.adapters.kafka import Access
from tests.contracts.member import Member, answer
from tests.repo.sources import ROOT

LONGEST = 4096
"""Bytes of what a reader is given."""


def member(access: Access, stream: str, group: str, owner: str) -> Member:
    written = json.dumps([access.servers, access.prefix, access.instance, access.lease.total_seconds()])
    given, asks = os.pipe()
    hears, says = os.pipe()
    process = _template().copy([written, stream, group, owner], given, says)
    return Member(process, os.fdopen(asks, "w"), os.fdopen(hears), access.group(stream, group))


@dataclass(frozen=True, slots=True)
class _Template:
    channel: socket
    process: "subprocess.Popen[bytes]"

    def copy(self, words: list[str], given: int, says: int) -> Process:
        """With the two as its standard input and output; they are closed here."""
        send_fds(self.channel, [json.dumps(words).encode()], [given, says])
        os.close(given)
        os.close(says)
        return Process(int(self.channel.recv(LONGEST)))


@cache
def _template() -> _Template:
    """One for this process, and for as long as it lives."""
    ours, its = socketpair(AF_UNIX, SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", "tests.contracts.members"]
        # With more, numpy has threads as soon as it is imported.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        return _Template(ours, subprocess.Popen(command, cwd=ROOT, stdin=its.fileno(), env=environment))


def serve() -> None:
    """Returns in each copy with its words, and never in the template."""
    assert threading.active_count() == len(os.listdir("/proc/self/task")) == 1, "a fork would lose what they started"
    gc.collect()
    gc.freeze()  # a collection that walked through what is shared would make a copy of it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who ends is gone at once
    with socket(fileno=os.dup(0)) as channel:
        while True:
            words, streams, *_ = recv_fds(channel, LONGEST, 2)
            if not words:
                os._exit(0)
            if (copy := os.fork()) == 0:
                break
            for stream in streams:
                os.close(stream)
            channel.send(str(copy).encode())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    answer(*json.loads(words))


if __name__ == "__main__":
    serve()
