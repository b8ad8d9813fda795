"""How a provider is reached: where a name may lead, and what is told of one that can't be reached."""

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
from notifier.ports.push import Reply, Silence
from tests.contracts.single_post import exchange_one, not_sent, port, post
from tests.contracts.transports import SOON, RecordingHandler


@contextmanager
def closed_port() -> Iterator[int]:
    """One that nobody listens on, and nobody else gets meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_a_port_that_nobody_listens_on() -> None:
    with closed_port() as nobodys:
        assert exchange_one(f"http://127.0.0.1:{nobodys}") == not_sent("it refuses connections")


def test_who_refuses_one_is_not_asked_again_for_each_of_the_others() -> None:
    tried: list[str] = []

    def noted(host: str, port: int) -> Sequence[str]:
        tried.append(host)
        return ["127.0.0.1"]

    with closed_port() as nobodys, closing(Http2Transport(limits=SOON, clear=True, resolver=noted)) as transport:
        posts = [post(f"http://push.example:{nobodys}") for _ in range(5_000)]
        found = [*transport.exchange(posts)]
        assert {str(answer) for _, answer in found} == {str(not_sent("it refuses connections"))}
        assert len(found) == 5_000
        assert len(tried) < 5


def test_who_comes_back_is_reached_again() -> None:
    handler = RecordingHandler()
    with closing(Http2Transport(limits=replace(SOON, barred=timedelta(0)), clear=True)) as transport:
        with closed_port() as place:
            origin = f"http://127.0.0.1:{place}"
            assert [answer for _, answer in transport.exchange([post(origin)])] == [not_sent("it refuses connections")]
        with serving(handler, port=place):
            assert [answer for _, answer in transport.exchange([post(origin)])] == [Reply(status=200)]


def test_a_name_that_does_not_resolve() -> None:
    def nothing(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert exchange_one("https://push.example", resolver=nothing) == not_sent(
        "its name doesn't resolve: Name or service not known"
    )
    assert exchange_one("https://push.example", resolver=lambda host, port: []) == not_sent("its name doesn't resolve")


def test_a_name_that_leads_where_it_must_not() -> None:
    def forbidden(host: str, port: int) -> Sequence[str]:
        raise OSError("its address isn't a public one")

    assert exchange_one("https://push.example", resolver=forbidden) == not_sent("its address isn't a public one")


def test_a_resolver_that_takes_its_time_keeps_nobody_else() -> None:
    never, handler = Event(), RecordingHandler()

    def slow(host: str, port: int) -> Sequence[str]:
        if host == "slow.example":
            never.wait(20)
        return ["127.0.0.1"]

    limits = replace(SOON, opening=timedelta(seconds=0.3))
    with serving(handler) as server, closing(Http2Transport(limits=limits, clear=True, resolver=slow)) as transport:
        began = time.monotonic()
        found = {
            p.origin: answer for p, answer in transport.exchange([post("https://slow.example"), post(server.origin)])
        }
        assert time.monotonic() - began < 5
    never.set()
    assert found == {
        "https://slow.example": not_sent("it couldn't be reached in time"),
        server.origin: Reply(status=200),
    }


@pytest.mark.parametrize("host", ["a" * 70 + ".example", ".example", "a..example"])
def test_a_name_that_is_none_is_told_of(host: str) -> None:
    answer = exchange_one(f"https://{host}")
    assert isinstance(answer, Silence)
    assert not answer.left
    assert answer.reason.startswith("its name ")


def test_what_is_no_address_is_never_looked_up() -> None:
    def names(host: str, port: int) -> Sequence[str]:
        return ["localhost"]

    assert exchange_one("http://push.example:1", resolver=names) == not_sent("its name isn't one that can be reached")


def test_it_connects_to_the_address_that_was_given_and_says_the_name() -> None:
    handler, lookups = RecordingHandler(), list[tuple[str, int]]()

    def noted(host: str, port: int) -> Sequence[str]:
        lookups.append((host, port))
        return ["127.0.0.1"]

    with serving(handler) as server:
        origin = f"http://push.example:{port(server.origin)}"
        assert exchange_one(origin, resolver=noted) == Reply(status=200)
    assert [one.origin for one in handler.posts] == [origin]
    assert lookups == [("push.example", port(origin))]


def test_where_one_address_refuses_the_next_one_is_tried() -> None:
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
def test_what_is_no_origin_is_refused_and_nobody_looked_up(origin: str) -> None:
    def never(host: str, port: int) -> Sequence[str]:
        raise AssertionError(host)

    answer = exchange_one(origin, resolver=never)
    assert isinstance(answer, Silence)
    assert not answer.left
    assert answer.reason


@pytest.mark.parametrize("path", ["", "send", "/a b", "/é", "/a\r\nx: y", "/\x00"])
def test_a_path_that_cannot_be_said_is_refused(path: str) -> None:
    handler = RecordingHandler()
    with serving(handler) as server:
        assert exchange_one(server.origin, path=path) == not_sent("its path or a header can't be said in a request")
    assert handler.posts == []


@pytest.mark.parametrize("value", ["a\r\nb: c", "\x00", "a\nb"])
def test_a_header_that_cannot_be_said_is_refused(value: str) -> None:
    handler = RecordingHandler()
    with serving(handler) as server:
        assert exchange_one(server.origin, value=value) == not_sent("its path or a header can't be said in a request")
    assert handler.posts == []


def test_of_many_origins_those_that_rest_give_way() -> None:
    handler = RecordingHandler()
    with serving(handler) as server:
        limits = replace(SOON, connections_in_all=4)
        resolver: Resolver = lambda host, port: ["127.0.0.1"]  # noqa: E731
        with closing(Http2Transport(limits=limits, clear=True, resolver=resolver)) as transport:
            origins = [f"http://push{number}.example:{port(server.origin)}" for number in range(40)]
            answers = [answer for _, answer in transport.exchange(map(post, origins))]
        assert answers == [Reply(status=200)] * 40
        assert server.tally.connections == 40
