"""The HTTP/2 server of the fakes works with an h2 client and survives invalid input."""

import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from typing import TypeVar

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.adapters.http2 import frames
from notifier.devkit.http2.connection import Http2Behavior
from notifier.devkit.http2.server import Http2Server, serving
from notifier.ports.push import NoReply, Post, Reply
from tests.support.http2_server_process import ServerProcess, server_process

HEADERS = [(":method", "POST"), (":scheme", "http"), (":authority", "push.example"), (":path", "/send"), ("x", "é")]

EventT = TypeVar("EventT", bound=h2.events.Event)


class Client:
    """Blocking h2 client with one connection."""

    def __init__(self, port: int, window: int = 65_535) -> None:
        self.link = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        initial = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window}
        self.h2.local_settings = h2.settings.Settings(client=True, initial_values=initial)
        self.h2.initiate_connection()
        self.events: list[h2.events.Event] = []

    def close(self) -> None:
        self.link.close()

    def post(self, body: bytes = b"") -> int:
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, HEADERS, end_stream=not body)
        while body:
            size = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(body))
            if size:
                self.h2.send_data(stream, body[:size], end_stream=size == len(body))
                body = body[size:]
            else:
                assert self.exchange()
        return stream

    def exchange(self) -> bool:
        """Exchange data once; return False at the end of the connection."""
        self.link.sendall(self.h2.data_to_send())
        data = self.link.recv(65_536)
        for event in self.h2.receive_data(data):
            self.events.append(event)
            if isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.link.sendall(self.h2.data_to_send())
        return bool(data)

    def wait_for(self, kind: type[EventT], count: int = 1) -> list[EventT]:
        while len(events := [event for event in self.events if isinstance(event, kind)]) < count and self.exchange():
            pass
        return events

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of the first response."""
        [response, *_] = self.wait_for(h2.events.ResponseReceived)
        return [(str(name), str(value)) for name, value in response.headers]

    def body(self) -> bytes:
        return b"".join(event.data for event in self.events if isinstance(event, h2.events.DataReceived))


def port(server: Http2Server | ServerProcess) -> int:
    return int(server.origin.rpartition(":")[2])


def echo(post: Post) -> Reply | NoReply:
    return Reply(status=201, headers={"x-path": post.path}, body=post.body)


@pytest.fixture
def server() -> Iterator[Http2Server]:
    with serving(echo) as http_server:
        yield http_server


@pytest.mark.parametrize(("size", "window"), [(0, 65_535), (5, 65_535), (500_000, 65_535), (50_000, 100)])
def test_request_and_response_bodies_arrive_unchanged(server: Http2Server, size: int, window: int) -> None:
    with closing(Client(port(server), window)) as client:
        body = bytes(number % 251 for number in range(size))
        client.post(body)
        assert client.headers() == [(":status", "201"), ("x-path", "/send")]
        assert client.wait_for(h2.events.StreamEnded)
        assert client.body() == body


def test_stream_limit_is_announced_and_enforced() -> None:
    behavior = Http2Behavior(max_concurrent_streams=2, latency=timedelta(seconds=30))
    with serving(echo, behavior) as server, closing(Client(port(server))) as client:
        client.wait_for(h2.events.RemoteSettingsChanged)
        assert client.h2.remote_settings.max_concurrent_streams == 2
        client.h2.remote_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = 100
        client.h2.remote_settings.acknowledge()
        streams = [client.post() for _ in range(3)]
        [reset] = client.wait_for(h2.events.StreamReset)
        assert (reset.stream_id, reset.error_code) == (streams[2], frames.REFUSED_STREAM)
        server.behave(Http2Behavior(max_concurrent_streams=7))
        while client.h2.remote_settings.max_concurrent_streams != 7:
            assert client.exchange()


def test_accepted_requests_are_answered_after_goaway() -> None:
    behavior = Http2Behavior(goaway_after=2, latency=timedelta(milliseconds=20))
    with serving(echo, behavior) as server, closing(Client(port(server))) as client:
        for _ in range(4):
            client.post()
        client.link.sendall(client.h2.data_to_send())
        # h2 can't read any further after a GOAWAY.
        received = [*frames.FrameReader().feed(b"".join(iter(lambda: client.link.recv(65_536), b"")))]
        assert [frames.read_goaway(payload) for kind, _, _, payload in received if kind == frames.GOAWAY] == [(3, 0)]
        assert [stream for kind, _, stream, _ in received if kind == frames.HEADERS] == [1, 3]
        assert server.counts.processed == 2


def test_failing_handler_is_answered_with_500(caplog: pytest.LogCaptureFixture) -> None:
    def failing(post: Post) -> Reply:
        raise LookupError("for a test")

    with serving(failing) as server, closing(Client(port(server))) as client:
        client.post()
        assert client.headers()[0] == (":status", "500")
    assert "for a test" in caplog.text


KINDS = st.integers(0, 12)
FRAMES = st.builds(frames.frame, KINDS, st.integers(0, 255), st.integers(0, 2**32 - 1), st.binary(max_size=60))
JUNK = st.one_of(
    st.binary(max_size=200),
    st.lists(FRAMES, max_size=8).map(lambda sequence: frames.PREFACE + b"".join(sequence)),
    st.just(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
    st.just(frames.PREFACE + frames.frame(frames.HEADERS, 0, 1, b"\x82") + b"\x00" * 9),
    st.just(frames.PREFACE + frames.frame(frames.HEADERS, 5, 1, b"\xff" * 20)),
    st.just(frames.PREFACE + b"\xff" * 9),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=JUNK)
def test_invalid_input_does_not_affect_other_connections(server: Http2Server, junk: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port(server)), timeout=10) as link, suppress(ConnectionError):
        link.sendall(junk)
        link.shutdown(socket.SHUT_WR)
        while link.recv(65_536):
            pass
    with closing(Client(port(server))) as client:
        client.post(b"still there?")
        assert client.wait_for(h2.events.StreamEnded)
        assert client.body() == b"still there?"


def test_server_in_own_process_reports_tally_and_changes_behavior() -> None:
    with server_process() as server, closing(Client(port(server))) as client:
        client.post(b"{}")
        assert client.headers()[0] == (":status", "200")
        assert (server.counts().processed, server.counts().connections) == (1, 1)
        server.behave(Http2Behavior(max_concurrent_streams=3))
        while client.h2.remote_settings.max_concurrent_streams != 3:
            assert client.exchange()
