"""The server that ships: other people's client (the package h2) understands it, and whatever it is told it bears."""

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
from notifier.devkit.http2.behaviour import Conduct
from notifier.devkit.http2.server import Http2Server, serving
from notifier.ports.push import Post, Reply, Silence
from tests.support.http2_process import Elsewhere, elsewhere

HEADERS = [(":method", "POST"), (":scheme", "http"), (":authority", "push.example"), (":path", "/send"), ("x", "é")]


Seen = TypeVar("Seen", bound=h2.events.Event)


class Client:
    """Blocking, one connection, by h2."""

    def __init__(self, port: int, window: int = 65_535) -> None:
        self.link = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        said = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window}
        self.h2.local_settings = h2.settings.Settings(client=True, initial_values=said)
        self.h2.initiate_connection()
        self.seen: list[h2.events.Event] = []

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
                assert self.hear()
        return stream

    def hear(self) -> bool:
        """False at the end of the connection."""
        self.link.sendall(self.h2.data_to_send())
        got = self.link.recv(65_536)
        for event in self.h2.receive_data(got):
            self.seen.append(event)
            if isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.link.sendall(self.h2.data_to_send())
        return bool(got)

    def until(self, kind: type[Seen], many: int = 1) -> list[Seen]:
        while len(found := [event for event in self.seen if isinstance(event, kind)]) < many and self.hear():
            pass
        return found

    def headers(self) -> list[tuple[str, str]]:
        """Of the first answer."""
        [answered, *_] = self.until(h2.events.ResponseReceived)
        return [(str(name), str(value)) for name, value in answered.headers]

    def body(self) -> bytes:
        return b"".join(event.data for event in self.seen if isinstance(event, h2.events.DataReceived))


def port(server: Http2Server | Elsewhere) -> int:
    return int(server.origin.rpartition(":")[2])


def echo(post: Post) -> Reply | Silence:
    return Reply(status=201, headers={"x-path": post.path}, body=post.body)


@pytest.fixture
def server() -> Iterator[Http2Server]:
    with serving(echo) as found:
        yield found


@pytest.mark.parametrize(("size", "window"), [(0, 65_535), (5, 65_535), (500_000, 65_535), (50_000, 100)])
def test_others_are_understood_and_understand(server: Http2Server, size: int, window: int) -> None:
    with closing(Client(port(server), window)) as client:
        body = bytes(number % 251 for number in range(size))
        client.post(body)
        assert client.headers() == [(":status", "201"), ("x-path", "/send")]
        assert client.until(h2.events.StreamEnded)
        assert client.body() == body


def test_its_limit_of_streams_is_said_and_kept() -> None:
    slow = Conduct(streams=2, latency=timedelta(seconds=30))
    with serving(echo, slow) as server, closing(Client(port(server))) as client:
        client.until(h2.events.RemoteSettingsChanged)
        assert client.h2.remote_settings.max_concurrent_streams == 2
        client.h2.remote_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = 100
        client.h2.remote_settings.acknowledge()
        streams = [client.post() for _ in range(3)]
        [reset] = client.until(h2.events.StreamReset)
        assert (reset.stream_id, reset.error_code) == (streams[2], frames.REFUSED_STREAM)
        server.behave(Conduct(streams=7))
        while client.h2.remote_settings.max_concurrent_streams != 7:
            assert client.hear()


def test_after_goaway_it_answers_what_it_took_and_goes() -> None:
    slow = Conduct(goaway_after=2, latency=timedelta(milliseconds=20))
    with serving(echo, slow) as server, closing(Client(port(server))) as client:
        for _ in range(4):
            client.post()
        client.link.sendall(client.h2.data_to_send())
        said = frames.FrameReader().feed(
            b"".join(iter(lambda: client.link.recv(65_536), b""))
        )  # h2 can't read on after it
        assert [frames.read_goaway(load) for kind, _, _, load in said if kind == frames.GOAWAY] == [(3, 0)]
        assert [stream for kind, _, stream, _ in said if kind == frames.HEADERS] == [1, 3]
        assert server.tally.acted_upon == 2


def test_whoever_answers_may_fail_and_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
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
    st.lists(FRAMES, max_size=8).map(lambda many: frames.PREFACE + b"".join(many)),
    st.just(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
    st.just(frames.PREFACE + frames.frame(frames.HEADERS, 0, 1, b"\x82") + b"\x00" * 9),
    st.just(frames.PREFACE + frames.frame(frames.HEADERS, 5, 1, b"\xff" * 20)),
    st.just(frames.PREFACE + b"\xff" * 9),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=JUNK)
def test_whatever_it_is_told_it_goes_on_serving_the_others(server: Http2Server, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port(server)), timeout=10) as link, suppress(ConnectionError):
        link.sendall(said)
        link.shutdown(socket.SHUT_WR)
        while link.recv(65_536):
            pass
    with closing(Client(port(server))) as client:
        client.post(b"still there?")
        assert client.until(h2.events.StreamEnded)
        assert client.body() == b"still there?"


def test_in_a_process_of_its_own_it_tells_what_came_and_changes_its_conduct() -> None:
    with elsewhere() as found, closing(Client(port(found))) as client:
        client.post(b"{}")
        assert client.headers()[0] == (":status", "200")
        assert (found.tally().acted_upon, found.tally().connections) == (1, 1)
        found.behave(Conduct(streams=3))
        while client.h2.remote_settings.max_concurrent_streams != 3:
            assert client.hear()
