"""A service on a real socket that does what a script says, request by request, and a clock that only pauses move."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, BinaryIO

from notifier.client import Client, MentionEvent
from tests.support.fakes.clock import START


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    headers: dict[str, str]
    body: bytes

    @property
    def ids(self) -> list[str]:
        found = json.loads(self.body)
        return [event["id"] for event in (found if isinstance(found, list) else [found])]


Act = Callable[[socket.socket, Request], bool]
"""What happens to one request; False ends the connection."""


@dataclass(slots=True)
class Scripted:
    """Follows the script, then accepts everything. Refuses connections until it is opened."""

    script: list[Act] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)
    _door: socket.socket = field(default_factory=socket.socket)
    _threads: list[Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._door.bind(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._door.getsockname()[1]}"

    def open(self) -> None:
        self._door.listen()
        self._start(self._serve)

    def close(self) -> None:
        for each in (self._door, *self.connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for each in (self._door, *self.connections):
            each.close()

    def _start(self, job: Callable[..., None], *arguments: object) -> None:
        self._threads.append(Thread(target=job, args=arguments, daemon=True))
        self._threads[-1].start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._door.accept()
                self.connections.append(connection)
                self._start(self._talk, connection)

    def _talk(self, connection: socket.socket) -> None:
        with suppress(OSError), connection.makefile("rb") as incoming:
            while request := _read(incoming):
                self.requests.append(request)
                act = self.script.pop(0) if self.script else accept
                if not act(connection, request):
                    connection.shutdown(socket.SHUT_RDWR)
                    return


def _read(incoming: BinaryIO) -> Request | None:
    if not incoming.readline():
        return None
    headers = {}
    while header := incoming.readline().decode().strip():
        name, _, value = header.partition(": ")
        headers[name.lower()] = value
    return Request(headers=headers, body=incoming.read(int(headers["content-length"])))


def whole(status: int, body: object, **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\n{named}Content-Length: {len(content)}\r\n\r\n".encode() + content


def accepted(request: Request) -> bytes:
    results = [{"id": id, "source": "x", "status": "accepted"} for id in request.ids]
    return whole(202, {"results": results} if request.body.startswith(b"[") else results[0])


def accept(connection: socket.socket, request: Request) -> bool:
    connection.sendall(accepted(request))
    return True


def accept_and_close(connection: socket.socket, request: Request) -> bool:
    """As a service does that is stopped, or that closes what is idle."""
    connection.sendall(accepted(request))
    return False


def break_off(_: socket.socket, __: Request) -> bool:
    return False


def break_off_in_the_answer(connection: socket.socket, request: Request) -> bool:
    connection.sendall(accepted(request)[:-10])
    return False


def say_nothing(_: socket.socket, __: Request) -> bool:
    return True


def say(status: int, body: object = b"", **headers: str) -> Act:
    def act(connection: socket.socket, _: Request) -> bool:
        connection.sendall(whole(status, body, **headers))
        return True

    return act


def problem(status: int, code: str, **headers: str) -> Act:
    found = {"type": f"/problems/{code}", "title": "No.", "status": status, "code": code, "detail": "Because."}
    return say(status, found, **headers)


@contextmanager
def serving(*script: Act) -> Iterator[Scripted]:
    service = Scripted(script=list(script))
    service.open()
    try:
        yield service
    finally:
        service.close()


@dataclass(slots=True)
class Pauses:
    """A clock that only sleeping moves, and how long each sleep was."""

    slept: list[float] = field(default_factory=list)
    now: float = 1_000.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def client_of(url: str, pauses: Pauses, *, chance: float = 0.5, **more: Any) -> Client:
    return Client(url, "a key", clock=pauses.clock, sleep=pauses.sleep, chance=lambda: chance, **more)


def event(id: str = "t1", **more: Any) -> MentionEvent:
    given: dict[str, Any] = {"tweet": id, "author": "ada", "mentions": ["nova"], "at": START, "text": "hello", **more}
    return MentionEvent(id=id, **given)
