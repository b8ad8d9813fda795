"""The server speaks HTTP/1.1, too, at the same port: it takes requests however they are cut, and bears what is none."""

import gc
import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from notifier.adapters.http2.frames import PREFACE, SETTINGS
from notifier.devkit.http2.behaviour import Conduct
from notifier.devkit.http2.server import Http2Server, serving
from notifier.ports.push import Post, Reply, Silence
from tests.support.test_ca import Authority

REQUEST = b"POST /send HTTP/1.1\r\nHost: push.example\r\nTTL: 60\r\nContent-Length: 4\r\n\r\nbody"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def answers(post: Post) -> Reply | Silence:
    if post.path == "/silent":
        return Silence(reason="", left=True)
    assert (post.origin, post.body, dict(post.headers)["ttl"]) == ("http://push.example", b"body", "60")
    return Reply(status=200, body=b"{}")


@pytest.fixture
def server() -> Iterator[Http2Server]:
    with serving(answers) as found:
        yield found


def connected(server: Http2Server) -> socket.socket:
    place = urlsplit(server.origin)
    return socket.create_connection((place.hostname, place.port), timeout=10)


def read(link: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (more := link.recv(size - len(got))):
        got += more
    return got


def test_requests_are_answered_however_they_are_cut(server: Http2Server) -> None:
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
def test_what_is_no_request_ends_the_connection_and_nothing_else(server: Http2Server, garbage: bytes) -> None:
    with closing(connected(server)) as link:
        link.sendall(garbage)
        assert read(link, 1) == b""
    with closing(connected(server)) as link:
        link.sendall(REQUEST)
        assert read(link, len(OK)) == OK


def test_who_is_not_to_be_answered_is_hung_up_on(server: Http2Server) -> None:
    with closing(connected(server)) as link:
        link.sendall(REQUEST.replace(b"/send", b"/silent"))
        assert read(link, 1) == b""


def test_answers_take_as_long_as_they_are_told_to(server: Http2Server) -> None:
    server.behave(Conduct(latency=timedelta(milliseconds=50)))
    line = http.client.HTTPConnection(urlsplit(server.origin).netloc, timeout=10)
    with closing(line):
        began = time.monotonic()
        line.request("POST", "/send", b"body", {"TTL": "60", "Host": "push.example"})
        assert line.getresponse().read() == b"{}"
        assert time.monotonic() - began >= 0.05


def test_a_connection_is_cut_at_a_request_without_an_answer_or_ended_behind_one_and_says_so() -> None:
    with serving(answers, Conduct(cut_after=2)) as server, closing(connected(server)) as link:
        link.sendall(2 * REQUEST)
        assert read(link, 2 * len(OK)) == OK
        assert server.tally.acted_upon == 2
    with serving(answers, Conduct(goaway_after=2)) as server, closing(connected(server)) as link:
        link.sendall(2 * REQUEST)
        said = read(link, 10_000)
        assert (said.count(b"200 OK"), said.count(b"connection: close")) == (2, 1)


def test_who_speaks_http2_is_answered_so_however_its_first_bytes_are_cut(server: Http2Server) -> None:
    for at in range(1, 5):
        with closing(connected(server)) as link:
            link.sendall(PREFACE[:at])
            link.sendall(PREFACE[at:])
            assert read(link, 9)[3] == SETTINGS


@pytest.mark.parametrize(("offers", "first"), [(["h2", "http/1.1"], b""), (["http/1.1"], REQUEST), ([], REQUEST)])
def test_with_tls_each_has_what_was_agreed_on(tmp_path: Path, offers: list[str], first: bytes) -> None:
    authority = Authority.made(tmp_path, "ours")
    trusting = ssl.create_default_context(cafile=str(authority.file))
    trusting.check_hostname = False
    if offers:
        trusting.set_alpn_protocols(offers)
    with (
        serving(lambda post: Reply(status=200, body=b"{}"), certificate=authority.server()) as server,
        closing(trusting.wrap_socket(connected(server))) as link,
    ):
        link.sendall(first)
        said = read(link, len(OK) if first else 9)
    assert said == OK if first else said[3] == SETTINGS


def test_who_says_nothing_is_hung_up_on_as_the_server_ends() -> None:
    with serving(answers) as server, closing(connected(server)) as other:
        silent = connected(server)
        other.sendall(REQUEST)
        assert read(other, len(OK)) == OK
    with closing(silent):
        assert read(silent, 1) == b""


def test_who_connects_as_the_server_ends_leaves_no_socket_open() -> None:
    for _ in range(30):
        with serving(answers) as server:
            connected(server).close()
    gc.collect()  # of a socket that is still open this makes a warning, which fails the test
