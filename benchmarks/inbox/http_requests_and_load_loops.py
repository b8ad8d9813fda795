"""Prebuilt HTTP/1.1 requests, their responses, and closed and open loops over sockets."""

import json
import random
import selectors
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

CHUNK = 262_144
TIMEOUT_SECONDS = 10.0
"""Seconds without a response, or after the end of an open loop. Requests that are still open then have failed."""
WITHOUT_BODY = {204, 304}
LENGTH = b"content-length: "


class Request(NamedTuple):
    number: int
    data: bytes


class Answer(NamedTuple):
    status: int
    head: bytes
    body: bytes


class Broken(Exception):
    """The server closed a connection before its response was complete, or sent a response without a length."""


@dataclass(slots=True, eq=False)
class Connection:
    link: socket.socket
    due: float = 0.0
    """When its request was due, by `perf_counter`."""
    number: int = 0
    """Number of its request."""
    data: bytes = b""

    @classmethod
    def to(cls, host: str, port: int) -> "Connection":
        link = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(link)

    def send(self, request: Request, due: float) -> None:
        self.due, self.number, self.data = due, request.number, b""
        self.link.sendall(request.data)

    def receive(self) -> Answer | None:
        """Read what has arrived. Return None while the response is incomplete. Raises Broken."""
        try:
            chunk = self.link.recv(CHUNK)
        except OSError as error:
            raise Broken(str(error)) from error
        if not chunk:
            raise Broken("closed")
        self.data = self.data + chunk if self.data else chunk
        return parsed(self.data)


def parsed(data: bytes) -> Answer | None:
    """Return the response at the beginning of the bytes, or None while it is incomplete. Raises Broken."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    head, body = data[:end], data[end + 4 :]
    status = int(head[9:12])
    if status in WITHOUT_BODY:
        return Answer(status, head, b"")
    return Answer(status, head, body) if len(body) >= _length(head) else None


def _length(head: bytes) -> int:
    at = head.find(LENGTH)
    at = head.lower().find(LENGTH) if at < 0 else at
    if at < 0:
        raise Broken("a response has no Content-Length")
    return int(head[at + len(LENGTH) :].partition(b"\r\n")[0])


@dataclass(slots=True, kw_only=True)
class Tally:
    keep: Callable[[int, Answer], None] | None = None
    """Called with each request's number and response."""
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    bytes: int = 0
    failed: int = 0

    def note(self, connection: Connection, answer: Answer, now: float) -> None:
        self.latencies.append(now - connection.due)
        self.statuses[answer.status] += 1
        self.bytes += len(answer.body)
        if self.keep is not None:
            self.keep(connection.number, answer)


@dataclass(slots=True, kw_only=True)
class LoadLoop:
    """Connections to one server, each with at most one request in flight."""

    host: str
    port: int
    tally: Tally
    waiting: selectors.BaseSelector
    """Holds the connections that have a request in flight."""
    _opened: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "LoadLoop":
        self._opened.callback(self.waiting.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def connect(self, count: int) -> list[Connection]:
        return [self._connected() for _ in range(count)]

    def send(self, connection: Connection, request: Request, due: float) -> None:
        self.waiting.register(connection.link, selectors.EVENT_READ, connection)
        connection.send(request, due)

    def idle(self, within: float) -> list[Connection]:
        """Wait for responses. Return the connections that are free now; broken ones are replaced."""
        free: list[Connection] = []
        for key, _ in self.waiting.select(within):
            connection: Connection = key.data
            try:
                answer = connection.receive()
            except Broken:
                self.tally.failed += 1
                self.waiting.unregister(connection.link)
                connection.link.close()
                free.append(self._connected())
                continue
            if answer is not None:
                self.tally.note(connection, answer, perf_counter())
                self.waiting.unregister(connection.link)
                free.append(connection)
        return free

    def under_way(self) -> list[Connection]:
        return [key.data for key in self.waiting.get_map().values()]

    def _connected(self) -> Connection:
        connection = Connection.to(self.host, self.port)
        self._opened.callback(connection.link.close)
        return connection


def due_times(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Yield arrival times of independent users at `rate` per second. The same seed yields the same times."""
    random_source, at = random.Random(seed), 0.0
    while (at := at + random_source.expovariate(rate)) < seconds:
        yield at


def closed_loop(loop: LoadLoop, requests: Iterator[Request], *, connections: int, seconds: float) -> float:
    """Send each connection's next request after its response. Return the seconds until the last response."""
    free = loop.connect(connections)
    began = perf_counter()
    ends = began + seconds
    while free or loop.under_way():
        for connection in free:
            now = perf_counter()
            request = next(requests, None) if now < ends else None
            if request is not None:
                loop.send(connection, request, now)
        free = loop.idle(TIMEOUT_SECONDS) if (left := loop.under_way()) else []
        if left and not free and perf_counter() - max(pending.due for pending in left) > TIMEOUT_SECONDS:
            loop.tally.failed += len(left)
            break
    return perf_counter() - began


def open_loop(loop: LoadLoop, requests: Iterator[Request], *, connections: int, due: Iterable[float]) -> float:
    """Send each request when it is due, however slow the responses are. Return the seconds that it took.

    A request without a free connection waits. Its latency counts from the time at which it was due.
    """
    free, late = loop.connect(connections), deque[float]()
    began = last = perf_counter()
    times = (began + at for at in due)
    upcoming = next(times, None)
    while upcoming is not None or late or loop.under_way():
        now = perf_counter()
        while upcoming is not None and upcoming <= now:
            late.append(upcoming)
            last, upcoming = upcoming, next(times, None)
        while late and free:
            loop.send(free.pop(), next(requests), late.popleft())
        if (wait := (upcoming or last + TIMEOUT_SECONDS) - perf_counter()) <= 0 and upcoming is None:
            break
        free += loop.idle(max(0.0, wait))
    _give_up(loop, late)
    return perf_counter() - began


def _give_up(loop: LoadLoop, late: Sequence[float]) -> None:
    """Count requests without a response. Their latency is at least the time until now."""
    now, left = perf_counter(), [*(pending.due for pending in loop.under_way()), *late]
    loop.tally.failed += len(left)
    loop.tally.latencies += [now - due for due in left]


# Requests as bytes and responses as values: the input and output of the load generator.

LENGTH_PREFIX = struct.Struct("<I")


def write_requests(path: Path, requests: Iterable[bytes]) -> None:
    path.write_bytes(b"".join(LENGTH_PREFIX.pack(len(request)) + request for request in requests))


def read_requests(path: Path) -> list[bytes]:
    data, at, requests = path.read_bytes(), 0, list[bytes]()
    while at < len(data):
        (length,) = LENGTH_PREFIX.unpack_from(data, at)
        at += LENGTH_PREFIX.size
        requests.append(data[at : at + length])
        at += length
    return requests


PAGE, UNREAD = "/v1/inbox", "/v1/inbox/unread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    number: int
    """Number of its request in the file."""
    status: int
    headers: Mapping[str, str]
    """Headers by lower-case name."""
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def get(path: str, token: str, headers: Mapping[str, str] | None = None) -> bytes:
    return _request("GET", path, token, headers or {}, b"")


def post(path: str, token: str, body: bytes, content_type: str) -> bytes:
    return _request("POST", path, token, {"Content-Type": content_type, "Content-Length": str(len(body))}, body)


def _request(method: str, path: str, token: str, headers: Mapping[str, str], body: bytes) -> bytes:
    named = {"Host": "127.0.0.1", "Authorization": f"Bearer {token}", **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def read_answers(path: Path) -> Sequence[Answered]:
    """Return the client's responses, sorted by the number of the request."""
    answers = [_answered(*json.loads(line)) for line in path.read_text().splitlines()]
    return sorted(answers, key=lambda answer: answer.number)


def _answered(number: int, status: int, head: str, body: str) -> Answered:
    pairs = [line.partition(": ") for line in head.split("\r\n")[1:]]
    headers = {name.lower(): value for name, _, value in pairs}
    return Answered(number=number, status=status, headers=headers, body=body)
