"""The load generator's process: plain sockets, prebuilt requests, HTTP/1.1 keep-alive, nothing in between.

`python -m notifier.testing.bench.inbox.client HOST PORT` reads jobs as lines of JSON and answers each with one line.
Ends when its input does.
"""

import json
import socket
import struct
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from select import epoll, select
from time import perf_counter, process_time
from typing import Any

from notifier.testing.bench.inbox.measured import due_times, percentiles

CHUNK = 262_144
GIVEN_UP_AFTER = 10.0
"""Seconds that the last answers are waited for once a load is over."""
NO_BODY = {204, 304}
LENGTH = struct.Struct("<I")


class Broken(Exception):
    """The server closed a connection in the middle of an answer, or sent none that can be read."""


@dataclass(slots=True, eq=False)
class Connection:
    link: socket.socket
    due: float = 0.0
    """When its request was to be sent."""
    number: int = 0
    """Of the request."""
    data: bytes = b""

    def send(self, request: bytes, number: int, due: float) -> None:
        self.due, self.number, self.data = due, number, b""
        self.link.sendall(request)

    def answer(self) -> tuple[int, bytes, bytes] | None:
        """Read what has come: status, head and body of a complete answer, or None. Raises Broken."""
        try:
            piece = self.link.recv(CHUNK)
        except OSError as error:
            raise Broken(str(error)) from error
        if not piece:
            raise Broken("closed")
        self.data = data = self.data + piece if self.data else piece
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return None
        status = int(data[9:12])
        body = data[end + 4 :]
        if status not in NO_BODY and len(body) < _length(data[:end]):
            return None
        return status, data[:end], body


@dataclass(slots=True)
class Tally:
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    bytes: int = 0
    failed: int = 0
    keep: Callable[[int, int, bytes, bytes], None] | None = None

    def note(self, connection: Connection, answer: tuple[int, bytes, bytes], now: float) -> None:
        status, head, body = answer
        self.latencies.append(now - connection.due)
        self.statuses[status] += 1
        self.bytes += len(body)
        if self.keep is not None:
            self.keep(connection.number, status, head, body)


@dataclass(slots=True, kw_only=True)
class Loader:
    host: str
    port: int

    def connect(self, count: int) -> list[Connection]:
        found = [self.connected() for _ in range(count)]
        return found

    def connected(self) -> Connection:
        link = socket.create_connection((self.host, self.port), timeout=GIVEN_UP_AFTER)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Connection(link)

    def closed(self, requests: Iterator[tuple[int, bytes]], tally: Tally, connections: int, seconds: float) -> float:
        """Each connection sends its next request when its answer is there; seconds until the last answer."""
        open_ = self.connect(connections)
        by_file = {connection.link.fileno(): connection for connection in open_}
        waiting, began = epoll(), perf_counter()
        ends = began + seconds
        active = 0
        for connection in open_:
            if (request := next(requests, None)) is not None:
                connection.send(request[1], request[0], perf_counter())
                waiting.register(connection.link, 1)
                active += 1
        while active:
            ready = waiting.poll(GIVEN_UP_AFTER)
            if not ready:
                tally.failed += active
                break
            for file, _ in ready:
                connection = by_file[file]
                try:
                    answer = connection.answer()
                except Broken:
                    tally.failed += 1
                    waiting.unregister(file)
                    connection.link.close()
                    connection = self.connected()
                    by_file[connection.link.fileno()] = connection
                    waiting.register(connection.link, 1)
                    answer = None
                    if (request := next(requests, None)) is None:
                        active -= 1
                    else:
                        connection.send(request[1], request[0], perf_counter())
                    continue
                if answer is None:
                    continue
                now = perf_counter()
                tally.note(connection, answer, now)
                request = next(requests, None) if now < ends else None
                if request is None:
                    active -= 1
                else:
                    connection.send(request[1], request[0], now)
        took = perf_counter() - began
        for connection in by_file.values():
            connection.link.close()
        return took

    def open(self, requests: Iterator[tuple[int, bytes]], tally: Tally, connections: int, due: Iterable[float]) -> float:
        """Requests go out when they are due, whatever became of those before; latency counts from that moment."""
        idle = self.connect(connections)
        busy: dict[int, Connection] = {}
        late: deque[float] = deque()
        began = perf_counter()
        times = iter(due)
        upcoming = next(times, None)
        last = began
        while upcoming is not None or busy or late:
            now = perf_counter() - began
            while upcoming is not None and upcoming <= now:
                late.append(upcoming)
                upcoming = next(times, None)
            while late and idle:
                connection = idle.pop()
                number, request = next(requests)
                connection.send(request, number, began + late.popleft())
                busy[connection.link.fileno()] = connection
            if upcoming is None:
                wait = last + GIVEN_UP_AFTER - perf_counter()
                if wait <= 0:
                    break
            else:
                wait = max(0.0, began + upcoming - perf_counter())
                last = perf_counter()
            ready, _, _ = select(list(busy), [], [], wait)
            for file in ready:
                connection = busy[file]
                try:
                    answer = connection.answer()
                except Broken:
                    tally.failed += 1
                    del busy[file]
                    connection.link.close()
                    idle.append(self.connected())
                    continue
                if answer is not None:
                    tally.note(connection, answer, perf_counter())
                    del busy[file]
                    idle.append(connection)
        now = perf_counter()
        tally.failed += len(busy) + len(late)
        tally.latencies += [now - connection.due for connection in busy.values()] + [now - began - at for at in late]
        for connection in [*idle, *busy.values()]:
            connection.link.close()
        return now - began


def _length(head: bytes) -> int:
    at = head.find(b"content-length: ")
    if at < 0:
        lower = head.lower()
        at = lower.find(b"content-length: ")
        if at < 0:
            raise Broken("no content-length")
    end = head.find(b"\r\n", at)
    return int(head[at + 16 : end if end > 0 else None])


def main(host: str, port: str) -> None:
    loader = Loader(host=host, port=int(port))
    files: dict[str, list[bytes]] = {}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(done(loader, files, **json.loads(line))), flush=True)


def done(
    loader: Loader,
    files: dict[str, list[bytes]],
    *,
    requests: str,
    connections: int,
    seconds: float = 1e9,
    count: int | None = None,
    rate: float | None = None,
    first: int = 0,
    seed: int = 1,
    answers: str | None = None,
) -> dict[str, Any]:
    if requests not in files:
        files[requests] = read(Path(requests))
    known = files[requests]
    turns: Iterator[tuple[int, bytes]] = islice(cycle(enumerate(known)), first % len(known), None)
    tally, kept = Tally(), list[dict[str, object]]()
    if answers is not None:
        tally.keep = lambda number, status, head, body: kept.append(
            {"number": number, "status": status, "head": head.decode("latin-1"), "body": body.decode()}
        )
    busy = process_time()
    if rate is None:
        took = loader.closed(islice(turns, count) if count else turns, tally, connections, seconds)
    else:
        took = loader.open(turns, tally, connections, due_times(rate, seconds, seed))
    busy = process_time() - busy
    if answers is not None:
        Path(answers).write_text(json.dumps(kept))
    opens = sum(tally.statuses.values())
    return {
        "opens": opens,
        "seconds": took,
        "latency": percentiles(tally.latencies),
        "statuses": dict(tally.statuses),
        "body": tally.bytes / opens if opens else 0.0,
        "busy": busy / took,
        "failed": tally.failed,
    }


def write(path: Path, requests: Iterable[bytes]) -> None:
    path.write_bytes(b"".join(LENGTH.pack(len(request)) + request for request in requests))


def read(path: Path) -> list[bytes]:
    data, at, found = path.read_bytes(), 0, list[bytes]()
    while at < len(data):
        (length,) = LENGTH.unpack_from(data, at)
        found.append(data[at + LENGTH.size : at + LENGTH.size + length])
        at += LENGTH.size + length
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
