"""Runs the HTTP/2 server in a separate process, so that measurements exclude its CPU time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from notifier.devkit.http2.connection import Http2Behavior, RequestHandler, ServerCounts
from notifier.devkit.http2.server import serving
from notifier.ports.push import Post, Reply

OK = Reply(status=200)


def accepts(post: Post) -> Reply:
    """Accept every request."""
    return OK


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    origin: str
    _pipe: "Pipe[Any, Any]"

    def behave(self, behavior: Http2Behavior) -> None:
        self._pipe.send(behavior)
        self._pipe.recv()

    def counts(self) -> ServerCounts:
        self._pipe.send(None)
        counts = self._pipe.recv()
        assert isinstance(counts, ServerCounts)
        return counts


@contextmanager
def server_process(
    handler: RequestHandler = accepts, behavior: Http2Behavior = Http2Behavior(), *, certificate: Path | None = None
) -> Iterator[ServerProcess]:
    """Serve in a new process. `handler` must be a module-level function, because that process imports it."""
    processes = get_context("spawn")
    parent_end, child_end = processes.Pipe()
    process = processes.Process(
        target=_host, args=(child_end, handler, behavior, certificate), name="http2", daemon=True
    )
    process.start()
    child_end.close()
    try:
        yield ServerProcess(origin=parent_end.recv(), _pipe=parent_end)
    finally:
        parent_end.close()
        process.join()


def _host(pipe: "Pipe[Any, Any]", handler: RequestHandler, behavior: Http2Behavior, certificate: Path | None) -> None:
    """Serve until the other end of the pipe is closed, which a crash of the parent does too."""
    os.setsid()  # Ctrl-C is for the parent only
    with serving(handler, behavior, certificate=certificate) as server:
        pipe.send(server.origin)
        while True:
            try:
                message = pipe.recv()
            except EOFError:
                return
            if isinstance(message, Http2Behavior):
                server.behave(message)
            pipe.send(server.counts)
