"""Load generator against a server that stalls, disconnects, or answers in pieces."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle, islice
from pathlib import Path
from selectors import DefaultSelector, SelectSelector

import pytest

from benchmarks.inbox.http_requests_and_load_loops import (
    Answer,
    Broken,
    LoadLoop,
    Request,
    Tally,
    closed_loop,
    due_times,
    get,
    open_loop,
    parsed,
    read_answers,
    read_requests,
    write_requests,
)
from benchmarks.inbox.json_line_process import HelperFailed, HelperProcess, LoadClient
from benchmarks.inbox.load_generator import Job, RequestFiles, done

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
STALLED_REQUEST, STALL_SECONDS = 20, 0.4
"""Number of the request at which the server stalls, and for how long."""

Answers = Callable[[int, bytes], list[bytes]]
"""Return the pieces of an answer by its number and request; no pieces close the connection."""


@dataclass(slots=True)
class Server:
    answers: Answers
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=64))
    numbers: Iterator[int] = field(default_factory=count)
    turn: threading.Lock = field(default_factory=threading.Lock)
    """One request at a time, as in one event loop: a stalled request delays all clients."""
    connections: int = 0

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def accept(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:  # closed
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link: socket.socket) -> None:
        with link:
            while request := link.recv(65_536):
                with self.turn:
                    chunks = self.answers(next(self.numbers), request)
                for chunk in chunks:
                    link.sendall(chunk)
                if not chunks:
                    return


@contextmanager
def serving(answers: Answers) -> Iterator[Server]:
    server = Server(answers)
    threading.Thread(target=server.accept, daemon=True).start()
    try:
        yield server
    finally:
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()


def stalling(number: int, _: bytes) -> list[bytes]:
    if number == STALLED_REQUEST:
        time.sleep(STALL_SECONDS)
    return [OK]


def requests(many: int | None = None) -> Iterator[Request]:
    return islice(cycle([Request(0, get("/a", "t")), Request(1, get("/b", "t"))]), many)


def loop_to(server: Server, tally: Tally, *, exact: bool = False) -> LoadLoop:
    return LoadLoop(
        host="127.0.0.1", port=server.port, tally=tally, waiting=SelectSelector() if exact else DefaultSelector()
    )


def test_closed_loop_sends_every_request_once_over_kept_connections() -> None:
    with serving(lambda number, request: [OK]) as server, loop_to(server, tally := Tally()) as loop:
        took = closed_loop(loop, requests(100), connections=4, seconds=10.0)
        assert (tally.statuses, tally.failed, len(tally.latencies)) == ({200: 100}, 0, 100)
        assert server.connections == 4
        assert max(tally.latencies) <= took < 10.0


def test_closed_loop_ends_with_its_time() -> None:
    with serving(lambda number, request: [OK]) as server, loop_to(server, tally := Tally()) as loop:
        assert 0.2 <= closed_loop(loop, requests(), connections=2, seconds=0.2) < 5.0
        assert tally.statuses[200] == len(tally.latencies) > 2


def test_open_loop_counts_waits_of_all_requests_due_in_a_stall() -> None:
    """A closed loop of two connections would record the stall only twice."""
    rate, seconds = 200.0, 1.0
    with serving(stalling) as server, loop_to(server, tally := Tally(), exact=True) as loop:
        due = [*due_times(rate, seconds, seed=1)]
        open_loop(loop, requests(), connections=2, due=due)
    assert tally.statuses == {200: len(due)}
    kept_waiting = sum(latency > STALL_SECONDS / 2 for latency in tally.latencies)
    assert kept_waiting >= rate * STALL_SECONDS / 2 * 0.6


def test_open_loop_sends_when_due_not_when_a_connection_is_free() -> None:
    with serving(lambda number, request: [OK]) as server, loop_to(server, tally := Tally(), exact=True) as loop:
        assert open_loop(loop, requests(), connections=8, due=[0.0, 0.15, 0.3]) >= 0.3
    assert len(tally.latencies) == 3


def test_broken_connection_is_counted_and_replaced() -> None:
    def breaking(number: int, _: bytes) -> list[bytes]:
        return [] if number % 10 == 9 else [OK]

    with serving(breaking) as server, loop_to(server, tally := Tally()) as loop:
        closed_loop(loop, requests(50), connections=2, seconds=10.0)
    assert (tally.statuses[200], tally.failed) == (45, 5)


def test_answer_in_pieces_is_one_answer() -> None:
    page = b"x" * 1_000
    pieces = [b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: 1000\r\n\r\n" + page[:400], page[400:]]
    with serving(lambda number, request: pieces) as server, loop_to(server, tally := Tally()) as loop:
        closed_loop(loop, requests(5), connections=1, seconds=10.0)
    assert (tally.statuses[200], tally.bytes, tally.failed) == (5, 5_000, 0)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (OK, Answer(200, OK[:-6], b"{}")),
        (OK[:-1], None),
        (b"HTTP/1.1 200 OK\r\ncontent-le", None),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", Answer(304, b"HTTP/1.1 304 Not Modified", b"")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204, b"HTTP/1.1 204 No Content", b"")),
    ],
)
def test_answer_is_complete_when_its_length_is_reached(data: bytes, answer: Answer | None) -> None:
    assert parsed(data) == answer


def test_answer_without_a_length_is_broken() -> None:
    with pytest.raises(Broken, match="Content-Length"):
        parsed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")


def test_job_starts_at_a_request_and_keeps_the_answers(tmp_path: Path) -> None:
    sent = [get(f"/{number}", "t") for number in range(5)]
    write_requests(tmp_path / "requests", sent)
    assert read_requests(tmp_path / "requests") == sent

    def echo(_: int, request: bytes) -> list[bytes]:
        body = request.split()[1]
        return [b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body]

    with serving(echo) as server:
        job = Job(
            port=server.port,
            requests=str(tmp_path / "requests"),
            connections=1,
            first=8,
            count=3,
            answers=str(tmp_path / "answers"),
        )
        summary = done(job, RequestFiles())
    assert (summary["opens"], summary["statuses"], summary["failed"], summary["body"]) == (3, {200: 3}, 0, 2.0)
    assert [(answer.number, answer.body) for answer in read_answers(tmp_path / "answers")] == [
        (0, "/0"),
        (3, "/3"),
        (4, "/4"),
    ]


def test_client_is_a_process_that_ends_with_its_input(tmp_path: Path) -> None:
    write_requests(tmp_path / "requests", [get("/", "t")])
    with serving(lambda number, request: [OK]) as server, (client := LoadClient.new(tmp_path)).process as process:
        reading = client.run(tmp_path / "requests", server.port, connections=2, count=10)
        assert (reading.opens, reading.unexpected(200), reading.unexpected(304)) == (10, 0, 10)
        timed = client.run(tmp_path / "requests", server.port, connections=2, rate=100.0, seconds=0.2, seed=3)
        assert timed.opens == len([*due_times(100.0, 0.2, 3)])
        running = process.process
    assert running is not None
    assert running.poll() is not None


def test_process_that_ends_early_reports_its_last_output(tmp_path: Path) -> None:
    arguments = ["-c", "import sys; print(1, flush=True); sys.exit('no room')"]
    with (
        HelperProcess(arguments=arguments, log=tmp_path / "log") as process,
        pytest.raises(HelperFailed, match="no room"),
    ):
        process.ask({"any": "job"})
