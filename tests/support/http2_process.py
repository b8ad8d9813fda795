"""The server in a process of its own, where it takes nothing from the processor time of whoever measures."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from notifier.devkit.http2.behaviour import Conduct
from notifier.devkit.http2.connection import Asked, ConnectionCounts
from notifier.devkit.http2.server import serving
from notifier.ports.push import Post, Reply

OK = Reply(status=200)


def accepts(post: Post) -> Reply:
    """Everything."""
    return OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    origin: str
    _pipe: "Pipe[Any, Any]"

    def behave(self, conduct: Conduct) -> None:
        self._pipe.send(conduct)
        self._pipe.recv()

    def tally(self) -> ConnectionCounts:
        self._pipe.send(None)
        found = self._pipe.recv()
        assert isinstance(found, ConnectionCounts)
        return found


@contextmanager
def elsewhere(
    asked: Asked = accepts, conduct: Conduct = Conduct(), *, certificate: Path | None = None
) -> Iterator[Elsewhere]:
    """`asked` is a function of a module, which that process imports."""
    processes = get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_host, args=(theirs, asked, conduct, certificate), name="http2", daemon=True)
    process.start()
    theirs.close()
    try:
        yield Elsewhere(origin=ours.recv(), _pipe=ours)
    finally:
        ours.close()
        process.join()


def _host(pipe: "Pipe[Any, Any]", asked: Asked, conduct: Conduct, certificate: Path | None) -> None:
    """Until the other end of the pipe is closed, also by the death of whoever holds it."""
    os.setsid()  # Ctrl-C is for whoever started us
    with serving(asked, conduct, certificate=certificate) as server:
        pipe.send(server.origin)
        while True:
            try:
                word = pipe.recv()
            except EOFError:
                return
            if isinstance(word, Conduct):
                server.behave(word)
            pipe.send(server.tally)
