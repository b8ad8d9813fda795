"""Starts log consumers as forks of one process that has imported what they need."""

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
from tests.contracts.consumer_process import ConsumerProcess, serve_consumer
from tests.repo.repository_files import ROOT

MAX_REQUEST_BYTES = 4096
"""Bytes of a request for one consumer."""


def start_consumer(access: Access, stream: str, group: str, owner: str) -> ConsumerProcess:
    access_json = json.dumps([access.servers, access.prefix, access.instance, access.lease.total_seconds()])
    stdin, requests = os.pipe()
    responses, stdout = os.pipe()
    process = _template().copy([access_json, stream, group, owner], stdin, stdout)
    return ConsumerProcess(process, os.fdopen(requests, "w"), os.fdopen(responses), access.group(stream, group))


@dataclass(frozen=True, slots=True)
class _Template:
    """A process that forks on request, about a hundred times in a test run.

    It reads its standard input, ends with its parent, and runs no threads, which a fork would lose.
    """

    channel: socket
    process: "subprocess.Popen[bytes]"

    def copy(self, arguments: list[str], stdin: int, stdout: int) -> Process:
        """Fork a consumer with the given standard input and output, and close them here."""
        send_fds(self.channel, [json.dumps(arguments).encode()], [stdin, stdout])
        os.close(stdin)
        os.close(stdout)
        return Process(int(self.channel.recv(MAX_REQUEST_BYTES)))


@cache
def _template() -> _Template:
    """Start the template, once for the lifetime of this process."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.contracts.consumer_forks"]
        # With more threads, numpy starts them on import.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        return _Template(ours, subprocess.Popen(command, cwd=ROOT, stdin=theirs.fileno(), env=environment))


def serve() -> None:
    """Fork on each request. Returns in each fork, and never in the template."""
    assert threading.active_count() == len(os.listdir("/proc/self/task")) == 1, "a fork would lose what they started"
    gc.collect()
    gc.freeze()  # otherwise a collection in a fork would copy the shared pages
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies: an ended child is reaped at once
    with socket(fileno=os.dup(0)) as channel:
        while True:
            arguments, streams, *_ = recv_fds(channel, MAX_REQUEST_BYTES, 2)
            if not arguments:
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
    serve_consumer(*json.loads(arguments))


if __name__ == "__main__":
    serve()
