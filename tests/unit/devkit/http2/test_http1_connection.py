"""The test server of the fake providers also speaks HTTP/1.1 on its port."""

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
from notifier.devkit.http2.connection import Http2Behavior
from notifier.devkit.http2.server import Http2Server, serving
from notifier.ports.push import NoReply, Post, Reply
from tests.support.certificate_authority import Authority

REQUEST = b"POST /send HTTP/1.1\r\nHost: push.example\r\nTTL: 60\r\nContent-Length: 4\r\n\r\nbody"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def answer(post: Post) -> Reply | NoReply:
    if post.path == "/silent":
        return NoReply(reason="", may_have_arrived=True)
    assert (post.origin, post.body, dict(post.headers)["ttl"]) == ("http://push.example", b"body", "60")
    return Reply(status=200, body=b"{}")


@pytest.fixture
def server() -> Iterator[Http2Server]:
    with serving(answer) as http_server:
        yield http_server


def connected(server: Http2Server) -> socket.socket:
    address = urlsplit(server.origin)
    return socket.create_connection((address.hostname, address.port), timeout=10)


def read(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := link.recv(size - len(data))):
        data += chunk
    return data


def test_requests_split_at_any_byte_are_answered(server: Http2Server) -> None:
    with closing(connected(server)) as link:
        for split in range(1, 2 * len(REQUEST), 7):
            requests = 2 * REQUEST
            link.sendall(requests[:split])
            link.sendall(requests[split:])
            assert read(link, 2 * len(OK)) == 2 * OK
    assert server.counts.connections == 1


@pytest.mark.parametrize(
    "garbage", [b"\x00\r\n\r\n", b"POST /\r\n\r\n", REQUEST.replace(b": 4", b": x"), REQUEST.replace(b": 4", b": -1")]
)
def test_invalid_request_ends_only_its_connection(server: Http2Server, garbage: bytes) -> None:
    with closing(connected(server)) as other_link, closing(connected(server)) as link:
        link.sendall(garbage)
        assert read(link, 1) == b""
        other_link.sendall(REQUEST)
        assert read(other_link, len(OK)) == OK


def test_connection_is_closed_for_request_without_response(server: Http2Server) -> None:
    with closing(connected(server)) as link:
        link.sendall(REQUEST.replace(b"/send", b"/silent"))
        assert read(link, 1) == b""


def test_responses_take_the_configured_latency(server: Http2Server) -> None:
    server.behave(Http2Behavior(latency=timedelta(milliseconds=50)))
    connection = http.client.HTTPConnection(urlsplit(server.origin).netloc, timeout=10)
    with closing(connection):
        began = time.monotonic()
        connection.request("POST", "/send", b"body", {"TTL": "60", "Host": "push.example"})
        assert connection.getresponse().read() == b"{}"
        assert time.monotonic() - began >= 0.05


def test_server_that_never_responds_sends_nothing_after_its_latency(server: Http2Server) -> None:
    server.behave(Http2Behavior(never_responds=True, latency=timedelta(milliseconds=1)))
    with closing(connected(server)) as link:
        link.sendall(REQUEST)
        link.settimeout(0.2)
        with pytest.raises(TimeoutError):
            link.recv(1)


def test_connection_is_cut_or_ended_after_the_configured_requests() -> None:
    with serving(answer, Http2Behavior(cut_after=2)) as server, closing(connected(server)) as link:
        link.sendall(2 * REQUEST)
        assert read(link, 2 * len(OK)) == OK
        assert server.counts.processed == 2
    with serving(answer, Http2Behavior(goaway_after=2)) as server, closing(connected(server)) as link:
        link.sendall(2 * REQUEST)
        response = read(link, 10_000)
        assert (response.count(b"200 OK"), response.count(b"connection: close")) == (2, 1)


def test_http2_preface_split_at_any_byte_is_recognized(server: Http2Server) -> None:
    for split in range(1, 5):
        with closing(connected(server)) as link:
            link.sendall(PREFACE[:split])
            link.sendall(PREFACE[split:])
            assert read(link, 9)[3] == SETTINGS


@pytest.mark.parametrize(("protocols", "request_"), [(["h2", "http/1.1"], b""), (["http/1.1"], REQUEST), ([], REQUEST)])
def test_tls_connection_uses_the_negotiated_protocol(tmp_path: Path, protocols: list[str], request_: bytes) -> None:
    authority = Authority.create(tmp_path, "ours")
    context = ssl.create_default_context(cafile=str(authority.file))
    context.check_hostname = False
    if protocols:
        context.set_alpn_protocols(protocols)
    with (
        serving(lambda post: Reply(status=200, body=b"{}"), certificate=authority.server()) as server,
        closing(context.wrap_socket(connected(server))) as link,
    ):
        link.sendall(request_)
        response = read(link, len(OK) if request_ else 9)
    assert response == OK if request_ else response[3] == SETTINGS


def test_silent_connection_is_closed_when_server_ends() -> None:
    with serving(answer) as server, closing(connected(server)) as active:
        silent = connected(server)
        active.sendall(REQUEST)
        assert read(active, len(OK)) == OK
    with closing(silent):
        assert read(silent, 1) == b""


def test_connection_during_shutdown_leaves_no_open_socket() -> None:
    for _ in range(30):
        with serving(answer) as server:
            connected(server).close()
    gc.collect()  # reports an open socket as a warning, which fails the test
