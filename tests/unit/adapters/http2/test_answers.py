"""Other people's HTTP/2 (the package h2) judges ours: it talks to our client and to our server, and knows the rules."""

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

from notifier.adapters.http2.connection import Http2Connection
from notifier.adapters.http2.limits import Http2Limits, Origin
from notifier.adapters.http2.request import Flight
from notifier.ports.push import Post, Reply, Silence

ORIGIN = "https://push.example"
OF_HTTP_1 = {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "te", "host"}
FORBIDDEN = OF_HTTP_1 | {"cookie", "content-length"}
TEXT = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=200)
NAMES = st.from_regex(r"\A[a-z][a-z0-9-]{0,40}\Z").filter(lambda name: name not in FORBIDDEN)
HEADERS = st.lists(st.tuples(NAMES, TEXT), max_size=8)
SIZES = st.one_of(st.integers(0, 5_000), st.sampled_from([0, 70_000]))
"""Of bodies."""
POSTS = st.lists(st.tuples(HEADERS, SIZES), min_size=1, max_size=5)


class Judge:
    """A server by h2, which answers every request with its own body and raises what breaks a rule."""

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
        self.asked: dict[int, list[tuple[str | bytes, str | bytes]]] = {}
        self.bodies: dict[int, bytes] = {}
        self.unsent: deque[tuple[int, bytes]] = deque()

    def take(self, got: bytes) -> bytes:
        for event in self.h2.receive_data(got):
            match event:
                case h2.events.RequestReceived():
                    self.asked[event.stream_id] = [(name, value) for name, value in event.headers]
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


def flight(headers: Sequence[tuple[str, str]], body: bytes) -> Flight:
    post = Post(origin=ORIGIN, path="/3/device/ab", headers=headers, body=body)
    return Flight(post=post, origin=Origin.read(ORIGIN), taken=0.0)


def talk(ours: Http2Connection, judge: Judge, piece: int = 1 << 20) -> None:
    """Until neither has anything to say."""
    while ours.out.queued:
        said = bytes(ours.out.queued[:piece])
        ours.out.sent(len(said))
        if back := judge.take(said):
            ours.heard(back, 0.0)


@settings(max_examples=30, deadline=None)
@given(
    posts=POSTS,
    window=st.sampled_from([100, 65_535, 1_000_000]),
    frame=st.sampled_from([16_384, 100_000]),
    table=st.sampled_from([0, 4_096]),
    piece=st.sampled_from([7, 1_000, 1 << 20]),
)
def test_our_client_breaks_no_rule_and_is_understood(
    posts: list[tuple[list[tuple[str, str]], int]], window: int, frame: int, table: int, piece: int
) -> None:
    piece = max(piece, sum(size for _, size in posts) // 500)
    ours, judge = Http2Connection(Http2Limits(), 0.0), Judge(window=window, frame=frame, table=table)
    ours.heard(judge.h2.data_to_send(), 0.0)
    talk(ours, judge)  # h2 takes larger frames from its next piece on
    flights = [flight(headers, bytes(number % 251 for number in range(size))) for headers, size in posts]
    for one in flights:
        ours.begin(one, 0.0)
    talk(ours, judge, piece)
    answers = {one.stream: answer for one, answer in ours.done}
    for one, (headers, _) in zip(flights, posts, strict=True):
        body = one.post.body
        pseudo = [(":method", "POST"), (":scheme", "https"), (":authority", "push.example"), (":path", "/3/device/ab")]
        assert judge.asked[one.stream] == [*pseudo, ("content-length", str(len(body))), *headers]
        assert judge.bodies[one.stream] == body
        expected = Reply(status=200, headers={"apns-id": "a" * 36, "x": "y"}, body=body[:30_000])
        assert answers[one.stream] == expected


def test_what_has_gone_whole_is_unknown_and_the_rest_is_sent_again_when_the_connection_ends() -> None:
    ours, judge = Http2Connection(Http2Limits(), 0.0), Judge()
    ours.heard(judge.h2.data_to_send(), 0.0)
    flights = [flight([], b"x" * 100) for _ in range(3)]
    for one in flights:
        ours.begin(one, 0.0)
    ours.out.sent(flights[1].ends - 1)  # all of the first one, and the second without its last byte
    ours.end("it was cut")
    assert ours.done == [(flights[0], Silence(reason="it was cut", left=True))]
    assert ours.again == flights[1:]


def test_a_goaway_gives_back_what_is_above_the_last_stream_and_waits_for_the_rest() -> None:
    ours, judge = Http2Connection(Http2Limits(), 0.0), Judge()
    ours.heard(judge.h2.data_to_send(), 0.0)
    flights = [flight([], b"") for _ in range(4)]
    for one in flights:
        ours.begin(one, 0.0)
    ours.out.sent(len(ours.out.queued))
    judge.h2.receive_data(b"")
    judge.h2.close_connection(last_stream_id=3)
    ours.heard(judge.h2.data_to_send(), 0.0)
    assert ours.again == flights[2:]
    assert ours.room == 0
    assert ours.busy
    ours.end("it was cut")
    assert [one for one, _ in ours.done] == flights[:2]
    assert all(isinstance(answer, Silence) and answer.left for _, answer in ours.done)


@pytest.mark.parametrize("status", ["200", "204"])
def test_what_was_accepted_is_accepted_though_the_end_of_the_answer_never_came(status: str) -> None:
    ours, judge = Http2Connection(Http2Limits(), 0.0), Judge()
    ours.heard(judge.h2.data_to_send(), 0.0)
    one = flight([], b"")
    ours.begin(one, 0.0)
    judge.h2.receive_data(bytes(ours.out.queued))
    ours.out.sent(len(ours.out.queued))
    judge.h2.send_headers(one.stream, [(":status", status)])
    ours.heard(judge.h2.data_to_send(), 0.0)
    ours.end("it was cut")
    assert ours.done == [(one, Reply(status=int(status)))]


def test_an_interim_answer_is_none_and_what_follows_the_body_is_no_news() -> None:
    ours, judge = Http2Connection(Http2Limits(), 0.0), Judge()
    ours.heard(judge.h2.data_to_send(), 0.0)
    one = flight([], b"")
    ours.begin(one, 0.0)
    judge.h2.receive_data(bytes(ours.out.queued))
    judge.h2.send_headers(one.stream, [(":status", "103")])
    judge.h2.send_headers(one.stream, [(":status", "201")])
    judge.h2.send_data(one.stream, b"body", pad_length=9)
    judge.h2.send_headers(one.stream, [("grpc-status", "0")], end_stream=True)
    ours.heard(judge.h2.data_to_send(), 0.0)
    assert ours.done == [(one, Reply(status=201, body=b"body"))]
