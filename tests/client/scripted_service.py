"""A service on a real socket that follows a script, and a fake clock."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, BinaryIO

from notifier.client import Client, MentionEvent
from tests.support.fakes.clock_and_nonces import START


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    headers: dict[str, str]
    body: bytes

    @property
    def ids(self) -> list[str]:
        body = json.loads(self.body)
        return [event["id"] for event in (body if isinstance(body, list) else [body])]


Reply = Callable[[socket.socket, Request], bool]
"""Answers one request; False closes the connection."""


@dataclass(slots=True)
class ScriptedService:
    """Follows the script, then accepts every event. Refuses connections until it is opened."""

    script: list[Reply] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)
    _listener: socket.socket = field(default_factory=socket.socket)
    _threads: list[Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener.bind(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def open(self) -> None:
        self._listener.listen()
        self._start(self._serve)

    def close(self) -> None:
        for socket_ in (self._listener, *self.connections):
            with suppress(OSError):
                socket_.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for socket_ in (self._listener, *self.connections):
            socket_.close()

    def _start(self, job: Callable[..., None], *arguments: object) -> None:
        self._threads.append(Thread(target=job, args=arguments, daemon=True))
        self._threads[-1].start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                self._start(self._answer_requests, connection)

    def _answer_requests(self, connection: socket.socket) -> None:
        with suppress(OSError), connection.makefile("rb") as incoming:
            while request := _read(incoming):
                self.requests.append(request)
                reply = self.script.pop(0) if self.script else accept
                if not reply(connection, request):
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


def http_response(status: int, body: object, **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    header_lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\n{header_lines}Content-Length: {len(content)}\r\n\r\n".encode() + content


def accepted_response(request: Request) -> bytes:
    results = [{"id": id, "source": "x", "status": "accepted"} for id in request.ids]
    return http_response(202, {"results": results} if request.body.startswith(b"[") else results[0])


def accept(connection: socket.socket, request: Request) -> bool:
    connection.sendall(accepted_response(request))
    return True


def accept_and_close(connection: socket.socket, request: Request) -> bool:
    """Accept the events and close, as a stopping service or an idle timeout does."""
    connection.sendall(accepted_response(request))
    return False


def break_off(_: socket.socket, __: Request) -> bool:
    return False


def break_off_in_the_response(connection: socket.socket, request: Request) -> bool:
    connection.sendall(accepted_response(request)[:-10])
    return False


def stay_silent(_: socket.socket, __: Request) -> bool:
    return True


def respond(status: int, body: object = b"", **headers: str) -> Reply:
    def reply(connection: socket.socket, _: Request) -> bool:
        connection.sendall(http_response(status, body, **headers))
        return True

    return reply


def problem(status: int, code: str, **headers: str) -> Reply:
    body = {"type": f"/problems/{code}", "title": "No.", "status": status, "code": code, "detail": "Because."}
    return respond(status, body, **headers)


@contextmanager
def serving(*script: Reply) -> Iterator[ScriptedService]:
    service = ScriptedService(script=list(script))
    service.open()
    try:
        yield service
    finally:
        service.close()


@dataclass(slots=True)
class Pauses:
    """A clock that advances only while sleeping, and records each sleep."""

    slept: list[float] = field(default_factory=list)
    now: float = 1_000.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def client_of(url: str, pauses: Pauses, *, chance: float = 0.5, **options: Any) -> Client:
    return Client(url, "a key", clock=pauses.clock, sleep=pauses.sleep, chance=lambda: chance, **options)


def event(id: str = "t1", **options: Any) -> MentionEvent:
    fields: dict[str, Any] = {
        "tweet": id,
        "author": "ada",
        "mentions": ["nova"],
        "at": START,
        "text": "hello",
        **options,
    }
    return MentionEvent(id=id, **fields)
