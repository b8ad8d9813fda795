"""Connecting to a provider: name resolution, addresses, and reasons for failure."""

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from threading import Event

import pytest

from notifier.adapters.http2 import Http2Transport, Resolver
from notifier.devkit.http2.server import serving
from notifier.ports.push import NoReply, Reply
from tests.contracts.http2_transports import LONG_TIMEOUTS, RecordingHandler
from tests.contracts.one_http2_request import exchange_one, not_sent, port, post


@contextmanager
def closed_port() -> Iterator[int]:
    """Yield a port on which no process listens, reserved meanwhile."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def test_closed_port_reports_refused_connection() -> None:
    with closed_port() as port_:
        assert exchange_one(f"http://127.0.0.1:{port_}") == not_sent("connection refused")


def test_refused_connection_is_not_retried_for_every_post() -> None:
    lookups: list[str] = []

    def recording_resolver(host: str, port: int) -> Sequence[str]:
        lookups.append(host)
        return ["127.0.0.1"]

    limits = replace(LONG_TIMEOUTS, pause_after_failure=timedelta(seconds=20))
    with (
        closed_port() as port_,
        closing(Http2Transport(limits=limits, allow_plaintext=True, resolver=recording_resolver)) as transport,
    ):
        posts = [post(f"http://push.example:{port_}") for _ in range(5_000)]
        answers = [*transport.exchange(posts)]
        assert {str(answer) for _, answer in answers} == {str(not_sent("connection refused"))}
        assert len(answers) == 5_000
        assert len(lookups) < 5


def test_provider_is_reached_again_after_it_returns() -> None:
    handler = RecordingHandler()
    with closing(
        Http2Transport(limits=replace(LONG_TIMEOUTS, pause_after_failure=timedelta(0)), allow_plaintext=True)
    ) as transport:
        with closed_port() as free_port:
            origin = f"http://127.0.0.1:{free_port}"
            assert [answer for _, answer in transport.exchange([post(origin)])] == [not_sent("connection refused")]
        with serving(handler, port=free_port):
            assert [answer for _, answer in transport.exchange([post(origin)])] == [Reply(status=200)]


def test_unresolved_name_is_reported() -> None:
    def unresolvable(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert exchange_one("https://push.example", resolver=unresolvable) == not_sent(
        "the host name does not resolve: Name or service not known"
    )
    assert exchange_one("https://push.example", resolver=lambda host, port: []) == not_sent(
        "the host name does not resolve"
    )


def test_forbidden_address_is_reported() -> None:
    def forbidden(host: str, port: int) -> Sequence[str]:
        raise OSError("its address isn't a public one")

    assert exchange_one("https://push.example", resolver=forbidden) == not_sent("its address isn't a public one")


def test_slow_resolver_does_not_block_other_origins() -> None:
    released, handler = Event(), RecordingHandler()

    def slow(host: str, port: int) -> Sequence[str]:
        if host == "slow.example":
            released.wait(20)
        return ["127.0.0.1"]

    limits = replace(LONG_TIMEOUTS, open_timeout=timedelta(seconds=1))
    with (
        serving(handler) as server,
        closing(Http2Transport(limits=limits, allow_plaintext=True, resolver=slow)) as transport,
    ):
        started = time.monotonic()
        answers = {
            request.origin: answer
            for request, answer in transport.exchange([post("https://slow.example"), post(server.origin)])
        }
        assert time.monotonic() - started < 5
    released.set()
    assert answers == {
        "https://slow.example": not_sent("connection timed out"),
        server.origin: Reply(status=200),
    }


@pytest.mark.parametrize("host", ["a" * 70 + ".example", ".example", "a..example"])
def test_invalid_host_name_is_reported(host: str) -> None:
    answer = exchange_one(f"https://{host}")
    assert isinstance(answer, NoReply)
    assert not answer.may_have_arrived
    assert answer.reason.startswith(("the host name ", "invalid host name"))


def test_resolver_result_that_is_no_address_is_rejected() -> None:
    def resolver(host: str, port: int) -> Sequence[str]:
        return ["localhost"]

    assert exchange_one("http://push.example:1", resolver=resolver) == not_sent("invalid host name")


def test_connection_uses_given_address_and_original_name() -> None:
    handler, lookups = RecordingHandler(), list[tuple[str, int]]()

    def recording_resolver(host: str, port: int) -> Sequence[str]:
        lookups.append((host, port))
        return ["127.0.0.1"]

    with serving(handler) as server:
        origin = f"http://push.example:{port(server.origin)}"
        assert exchange_one(origin, resolver=recording_resolver) == Reply(status=200)
    assert [request.origin for request in handler.posts] == [origin]
    assert lookups == [("push.example", port(origin))]


def test_next_address_is_tried_after_refusal() -> None:
    handler = RecordingHandler()
    with serving(handler) as server:
        assert exchange_one(server.origin, resolver=lambda host, port: ["127.0.0.3", "127.0.0.1"]) == Reply(status=200)


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "push.example",
        "https://",
        "https://push.example/path",
        "https://push.example?query",
        "https://user:word@push.example",
        "https://push.example:99999",
        "https://push.example:x",
        "https://push exam.ple",
        "https://bücher.example",
        "https://push.example\r\n",
        "ftp://push.example:21",
        "https://[::1",
    ],
)
def test_invalid_origin_is_rejected_without_lookup(origin: str) -> None:
    def failing_resolver(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    answer = exchange_one(origin, resolver=failing_resolver)
    assert isinstance(answer, NoReply)
    assert not answer.may_have_arrived
    assert answer.reason


@pytest.mark.parametrize("path", ["", "send", "/a b", "/é", "/a\r\nx: y", "/\x00"])
def test_invalid_path_is_rejected(path: str) -> None:
    handler = RecordingHandler()
    with serving(handler) as server:
        assert exchange_one(server.origin, path=path) == not_sent("the path or a header can't be encoded in a request")
    assert handler.posts == []


@pytest.mark.parametrize("value", ["a\r\nb: c", "\x00", "a\nb"])
def test_invalid_header_is_rejected(value: str) -> None:
    handler = RecordingHandler()
    with serving(handler) as server:
        assert exchange_one(server.origin, value=value) == not_sent(
            "the path or a header can't be encoded in a request"
        )
    assert handler.posts == []


def test_idle_connections_give_way_to_other_origins() -> None:
    handler = RecordingHandler()
    with serving(handler) as server:
        limits = replace(LONG_TIMEOUTS, max_total_connections=4)
        resolver: Resolver = lambda host, port: ["127.0.0.1"]  # noqa: E731
        with closing(Http2Transport(limits=limits, allow_plaintext=True, resolver=resolver)) as transport:
            origins = [f"http://push{number}.example:{port(server.origin)}" for number in range(40)]
            answers = [answer for _, answer in transport.exchange(map(post, origins))]
        assert answers == [Reply(status=200)] * 40
        assert server.counts.connections == 40
