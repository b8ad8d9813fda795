"""The server speaks HTTP/1.1, too: it takes requests however they are cut, and bears what is none."""

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from notifier.ports.http2 import Post, Reply, Silence
from notifier.testing.http2.conduct import Conduct
from notifier.testing.http2.server import Server, serving

REQUEST = b"POST /send HTTP/1.1\r\nHost: push.example\r\nTTL: 60\r\nContent-Length: 4\r\n\r\nbody"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def answers(post: Post) -> Reply | Silence:
    if post.path == "/silent":
        return Silence(reason="", left=True)
    assert (post.origin, post.body, dict(post.headers)["ttl"]) == ("http://push.example", b"body", "60")
    return Reply(status=200, body=b"{}")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(answers) as found:
        yield found


def connected(server: Server) -> socket.socket:
    place = urlsplit(server.http1)
    return socket.create_connection((place.hostname, place.port), timeout=10)


def read(link: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (more := link.recv(size - len(got))):
        got += more
    return got


def test_requests_are_answered_however_they_are_cut(server: Server) -> None:
    with closing(connected(server)) as link:
        for at in range(1, 2 * len(REQUEST), 7):
            both = 2 * REQUEST
            link.sendall(both[:at])
            link.sendall(both[at:])
            assert read(link, 2 * len(OK)) == 2 * OK
    assert server.tally.connections == 1


@pytest.mark.parametrize(
    "garbage", [b"\x00\r\n\r\n", b"POST /\r\n\r\n", REQUEST.replace(b": 4", b": x"), REQUEST.replace(b": 4", b": -1")]
)
def test_what_is_no_request_ends_the_connection_and_nothing_else(server: Server, garbage: bytes) -> None:
    with closing(connected(server)) as link:
        link.sendall(garbage)
        assert read(link, 1) == b""
    with closing(connected(server)) as link:
        link.sendall(REQUEST)
        assert read(link, len(OK)) == OK


def test_who_is_not_to_be_answered_is_hung_up_on(server: Server) -> None:
    with closing(connected(server)) as link:
        link.sendall(REQUEST.replace(b"/send", b"/silent"))
        assert read(link, 1) == b""


def test_answers_take_as_long_as_they_are_told_to(server: Server) -> None:
    server.behave(Conduct(latency=timedelta(milliseconds=50)))
    line = http.client.HTTPConnection(urlsplit(server.http1).netloc, timeout=10)
    with closing(line):
        began = time.monotonic()
        line.request("POST", "/send", b"body", {"TTL": "60", "Host": "push.example"})
        assert line.getresponse().read() == b"{}"
        assert time.monotonic() - began >= 0.05
