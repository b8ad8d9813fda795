"""The HTTP/2 client keeps the protocol rules, as checked by the package h2."""

from collections import deque
from collections.abc import Sequence

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.adapters.http2.connection_protocol import Http2Connection
from notifier.adapters.http2.limits import Http2Limits
from notifier.adapters.http2.request import Origin, Request
from notifier.ports.push import NoReply, Post, Reply

ORIGIN = "https://push.example"
HTTP1_ONLY = {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "te", "host"}
FORBIDDEN = HTTP1_ONLY | {"cookie", "content-length"}
TEXT = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=200)
NAMES = st.from_regex(r"\A[a-z][a-z0-9-]{0,40}\Z").filter(lambda name: name not in FORBIDDEN)
HEADERS = st.lists(st.tuples(NAMES, TEXT), max_size=8)
BODY_SIZES = st.one_of(st.integers(0, 5_000), st.sampled_from([0, 70_000]))
POSTS = st.lists(st.tuples(HEADERS, BODY_SIZES), min_size=1, max_size=5)


class H2Server:
    """An h2 server that echoes each body and raises an error if the client breaks a rule."""

    def __init__(self, *, window: int = 65_535, frame: int = 16_384, streams: int = 100, table: int = 4_096) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window,
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: streams,
                h2.settings.SettingCodes.HEADER_TABLE_SIZE: table,
            },
        )
        self.h2.initiate_connection()
        self.h2.update_settings({h2.settings.SettingCodes.MAX_FRAME_SIZE: frame})
        self.requests: dict[int, list[tuple[str | bytes, str | bytes]]] = {}
        self.bodies: dict[int, bytes] = {}
        self.unsent: deque[tuple[int, bytes]] = deque()

    def take(self, data: bytes) -> bytes:
        for event in self.h2.receive_data(data):
            match event:
                case h2.events.RequestReceived():
                    self.requests[event.stream_id] = [(name, value) for name, value in event.headers]
                    self.bodies[event.stream_id] = b""
                case h2.events.DataReceived():
                    self.bodies[event.stream_id] += event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case h2.events.StreamEnded():
                    self.h2.send_headers(event.stream_id, [(":status", "200"), ("apns-id", "a" * 36), ("x", "y")])
                    self.unsent.append((event.stream_id, self.bodies[event.stream_id][:30_000]))
                case _:
                    pass
        self._answer()
        return self.h2.data_to_send()

    def _answer(self) -> None:
        for _ in range(len(self.unsent)):
            stream, body = self.unsent.popleft()
            while size := min(len(body), self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size):
                self.h2.send_data(stream, body[:size])
                body = body[size:]
            if body:
                self.unsent.append((stream, body))
            else:
                self.h2.end_stream(stream)


def request_of(headers: Sequence[tuple[str, str]], body: bytes) -> Request:
    post = Post(origin=ORIGIN, path="/3/device/ab", headers=headers, body=body)
    return Request(post=post, origin=Origin.parse(ORIGIN), accepted_at=0.0)


def exchange(connection: Http2Connection, server: H2Server, chunk_size: int = 1 << 20) -> None:
    """Exchange bytes until neither side has any to send."""
    while connection.send_buffer.queued:
        chunk = bytes(connection.send_buffer.queued[:chunk_size])
        connection.send_buffer.on_sent(len(chunk))
        if response := server.take(chunk):
            connection.receive(response, 0.0)


@settings(max_examples=30, deadline=None)
@given(
    posts=POSTS,
    window=st.sampled_from([100, 65_535, 1_000_000]),
    frame=st.sampled_from([16_384, 100_000]),
    table=st.sampled_from([0, 4_096]),
    chunk_size=st.sampled_from([7, 1_000, 1 << 20]),
)
def test_client_keeps_protocol_rules(
    posts: list[tuple[list[tuple[str, str]], int]], window: int, frame: int, table: int, chunk_size: int
) -> None:
    chunk_size = max(chunk_size, sum(size for _, size in posts) // 500)  # about 500 chunks at most, to save time
    connection, server = Http2Connection(Http2Limits(), 0.0), H2Server(window=window, frame=frame, table=table)
    connection.receive(server.h2.data_to_send(), 0.0)
    exchange(connection, server)  # h2 accepts larger frames only from its next chunk on
    requests = [request_of(headers, bytes(number % 251 for number in range(size))) for headers, size in posts]
    for request in requests:
        connection.start_request(request, 0.0)
    exchange(connection, server, chunk_size)
    responses = {request.stream: response for request, response in connection.finished}
    for request, (headers, _) in zip(requests, posts, strict=True):
        body = request.post.body
        pseudo = [(":method", "POST"), (":scheme", "https"), (":authority", "push.example"), (":path", "/3/device/ab")]
        assert server.requests[request.stream] == [*pseudo, ("content-length", str(len(body))), *headers]
        assert server.bodies[request.stream] == body
        expected = Reply(status=200, headers={"apns-id": "a" * 36, "x": "y"}, body=body[:30_000])
        assert responses[request.stream] == expected


def test_partly_sent_requests_are_resent_after_connection_ends() -> None:
    connection, server = Http2Connection(Http2Limits(), 0.0), H2Server()
    connection.receive(server.h2.data_to_send(), 0.0)
    requests = [request_of([], b"x" * 100) for _ in range(3)]
    for request in requests:
        connection.start_request(request, 0.0)
    # The whole first request was sent, and the second without its last byte.
    connection.send_buffer.on_sent(requests[1].end_offset - 1)
    connection.on_closed("it was cut")
    assert connection.finished == [(requests[0], NoReply(reason="it was cut", may_have_arrived=True))]
    assert connection.resendable == requests[1:]


def test_goaway_returns_requests_above_last_stream() -> None:
    connection, server = Http2Connection(Http2Limits(), 0.0), H2Server()
    connection.receive(server.h2.data_to_send(), 0.0)
    requests = [request_of([], b"") for _ in range(4)]
    for request in requests:
        connection.start_request(request, 0.0)
    connection.send_buffer.on_sent(len(connection.send_buffer.queued))
    server.h2.receive_data(b"")
    server.h2.close_connection(last_stream_id=3)
    connection.receive(server.h2.data_to_send(), 0.0)
    assert connection.resendable == requests[2:]
    assert connection.free_stream_count == 0
    assert connection.is_busy
    connection.on_closed("it was cut")
    assert [request for request, _ in connection.finished] == requests[:2]
    assert all(isinstance(response, NoReply) and response.may_have_arrived for _, response in connection.finished)


@pytest.mark.parametrize("status", ["200", "204"])
def test_accepted_status_counts_without_end_of_response(status: str) -> None:
    connection, server = Http2Connection(Http2Limits(), 0.0), H2Server()
    connection.receive(server.h2.data_to_send(), 0.0)
    request = request_of([], b"")
    connection.start_request(request, 0.0)
    server.h2.receive_data(bytes(connection.send_buffer.queued))
    connection.send_buffer.on_sent(len(connection.send_buffer.queued))
    server.h2.send_headers(request.stream, [(":status", status)])
    connection.receive(server.h2.data_to_send(), 0.0)
    connection.on_closed("it was cut")
    assert connection.finished == [(request, Reply(status=int(status)))]


def test_interim_responses_and_trailers_are_ignored() -> None:
    connection, server = Http2Connection(Http2Limits(), 0.0), H2Server()
    connection.receive(server.h2.data_to_send(), 0.0)
    request = request_of([], b"")
    connection.start_request(request, 0.0)
    server.h2.receive_data(bytes(connection.send_buffer.queued))
    server.h2.send_headers(request.stream, [(":status", "103")])
    server.h2.send_headers(request.stream, [(":status", "201")])
    server.h2.send_data(request.stream, b"body", pad_length=9)
    server.h2.send_headers(request.stream, [("grpc-status", "0")], end_stream=True)
    connection.receive(server.h2.data_to_send(), 0.0)
    assert connection.finished == [(request, Reply(status=201, body=b"body"))]
