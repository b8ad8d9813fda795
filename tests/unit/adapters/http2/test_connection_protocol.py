"""An HTTP/2 connection facing a misbehaving peer: limits, timeouts and outcomes of requests."""

import pytest

from notifier.adapters.http2 import frames
from notifier.adapters.http2.connection_protocol import MAX_PENDING_ACKS, Http2Connection
from notifier.adapters.http2.frames import Violation, frame
from notifier.adapters.http2.hpack import encode_fields
from notifier.adapters.http2.limits import Http2Limits
from notifier.adapters.http2.request import Origin, Request
from notifier.ports.push import NoReply, Post, Reply

ORIGIN = "https://push.example"
OK = encode_fields([(":status", "200")])
END_FLAGS = frames.END_HEADERS | frames.END_STREAM


def new_request(body: bytes = b"{}") -> Request:
    return Request(
        post=Post(origin=ORIGIN, path="/", headers=[], body=body), origin=Origin.parse(ORIGIN), accepted_at=0.0
    )


def opened(
    limits: Http2Limits = Http2Limits(), count: int = 1, streams: int = 100
) -> tuple[Http2Connection, list[Request]]:
    """Return a connection that has sent `count` requests, on odd streams from 1 on."""
    connection = Http2Connection(limits, 0.0)
    connection.receive(frames.settings([(frames.MAX_STREAMS, streams)]), 0.0)
    requests = [new_request() for _ in range(count)]
    for request in requests:
        connection.start_request(request, 0.0)
    connection.send_buffer.on_sent(len(connection.send_buffer.queued))
    return connection, requests


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "too large"),
        (frame(frames.HEADERS, END_FLAGS, 3, OK), "response to a stream that was never opened"),
        (frame(frames.HEADERS, END_FLAGS, 2, OK), "response to a stream that was never opened"),
        (frame(frames.HEADERS, END_FLAGS, 0, OK), "response to a stream that was never opened"),
        (frame(frames.DATA, 0, 99, b"x"), "response to a stream that was never opened"),
        (frame(frames.PUSH_PROMISE, frames.END_HEADERS, 1, b"\0\0\0\2"), "unexpected push"),
        (frame(frames.CONTINUATION, frames.END_HEADERS, 1, OK), "CONTINUATION without HEADERS"),
        (frame(frames.HEADERS, 0, 1, OK) + frame(frames.PING, 0, 0, b"x" * 8), "inside a header block"),
        (frame(frames.HEADERS, 0, 1, OK) + frame(frames.CONTINUATION, 4, 3, OK), "inside a header block"),
        (frame(frames.HEADERS, 0, 1) + frame(frames.CONTINUATION, 0, 1, b"x" * 16_000) * 5, "too large"),
        (frame(frames.HEADERS, END_FLAGS | frames.PADDED, 1, b"\xff" + OK), "padding is longer"),
        (frame(frames.HEADERS, END_FLAGS, 1, b"\xff\xff"), "can't be decoded"),
        (frame(frames.SETTINGS, 0, 0, b"odd"), "SETTINGS"),
        (frames.settings([(frames.INITIAL_WINDOW_SIZE, 2**31)]), "flow-control window is too large"),
        (frames.window_update(0, 2**31 - 1), "flow-control window is too large"),
        (frame(frames.WINDOW_UPDATE, 0, 0, b"x"), "four bytes"),
        (frame(frames.RST_STREAM, 0, 1, b"x"), "four bytes"),
        (frame(frames.GOAWAY, 0, 0, b"x"), "too short"),
        (frame(frames.PING, 0, 0, b"x" * 8) * (MAX_PENDING_ACKS + 1), "without reading them"),
    ],
)
def test_protocol_violation_leaves_sent_requests_unknown(data: bytes, reason: str) -> None:
    connection, [request] = opened()
    with pytest.raises(Violation, match=reason):
        connection.receive(data, 1.0)
    connection.on_closed("it is left")
    assert connection.finished == [(request, NoReply(reason="it is left", may_have_arrived=True))]


def test_response_before_a_frame_that_is_too_large_counts() -> None:
    connection, [request] = opened()
    with pytest.raises(Violation, match="too large"):
        connection.receive(frame(frames.HEADERS, END_FLAGS, 1, OK) + b"HTTP/1.1 400 Bad Request\r\n\r\n", 1.0)
    connection.on_closed("it is left")
    assert connection.finished == [(request, Reply(status=200))]


@pytest.mark.parametrize("data", [frame(0xB, 0, 0, b"grease"), frame(frames.PRIORITY, 0, 1, b"x" * 5)])
def test_unknown_and_priority_frames_are_ignored(data: bytes) -> None:
    connection, [request] = opened()
    connection.receive(data + frame(frames.HEADERS, END_FLAGS, 1, OK), 1.0)
    assert connection.finished == [(request, Reply(status=200))]


@pytest.mark.parametrize(
    "block", [b"", encode_fields([("x", "y")]), encode_fields([(":status", "abc")]), encode_fields([(":status", "0")])]
)
def test_response_without_valid_status_is_rejected(block: bytes) -> None:
    connection, [request] = opened()
    connection.receive(frame(frames.HEADERS, END_FLAGS, 1, block), 1.0)
    assert connection.finished == [(request, NoReply(reason="the response is not HTTP", may_have_arrived=True))]


def test_body_before_status_is_rejected() -> None:
    connection, [request] = opened()
    connection.receive(frame(frames.DATA, frames.END_STREAM, 1, b"x"), 1.0)
    assert [(sent, type(response)) for sent, response in connection.finished] == [(request, NoReply)]


def test_late_response_to_abandoned_request_is_ignored() -> None:
    connection, requests = opened(count=2)
    assert connection.check_timeouts(10.0)
    assert [request for request, _ in connection.finished] == requests
    assert connection.free_stream_count == 100
    connection.finished.clear()
    connection.receive(frame(frames.HEADERS, frames.END_HEADERS, 1, OK) + frame(frames.DATA, 1, 1, b"late"), 11.0)
    assert connection.finished == []


def test_silent_connection_is_pinged_once_and_then_ended() -> None:
    connection, _ = opened()
    assert connection.check_timeouts(2.9)
    assert not connection.send_buffer.queued
    assert connection.check_timeouts(3.0)
    assert connection.send_buffer.queued[3] == frames.PING
    queued = len(connection.send_buffer.queued)
    assert connection.check_timeouts(5.9)
    assert len(connection.send_buffer.queued) == queued
    assert not connection.check_timeouts(6.0)


def test_any_frame_resets_the_silence_timer() -> None:
    connection, _ = opened()
    connection.check_timeouts(3.0)
    connection.receive(frame(frames.PING, 0, 0, b"12345678"), 5.0)
    assert connection.check_timeouts(7.9)
    connection.send_buffer.on_sent(len(connection.send_buffer.queued))
    connection.check_timeouts(8.0)
    assert connection.send_buffer.queued[3] == frames.PING


def test_idle_connection_is_usable_only_after_its_ping_is_answered() -> None:
    connection, _ = opened()
    connection.receive(frame(frames.HEADERS, END_FLAGS, 1, OK), 1.0)
    connection.require_ping_after_idle(15.9)
    assert connection.free_stream_count == 100
    connection.require_ping_after_idle(16.0)
    assert connection.free_stream_count == 0
    connection.receive(frames.settings([(frames.MAX_STREAMS, 50)]), 16.1)  # a peer may send this during the pause
    assert connection.free_stream_count == 0
    connection.receive(frame(frames.PING, frames.ACK, 0, (1).to_bytes(8, "big")), 16.2)
    assert connection.free_stream_count == 50


def test_unanswered_ping_of_a_silence_does_not_replace_the_ping_after_idle() -> None:
    connection, _ = opened()
    assert connection.check_timeouts(3.0)
    assert connection.send_buffer.queued[3] == frames.PING
    connection.cancel_all()
    connection.require_ping_after_idle(30.0)
    connection.receive(frame(frames.PING, frames.ACK, 0, (1).to_bytes(8, "big")), 30.1)  # sent before the pause
    assert connection.free_stream_count == 0
    connection.receive(frame(frames.PING, frames.ACK, 0, (2).to_bytes(8, "big")), 30.2)
    assert connection.free_stream_count == 100


def test_data_that_is_read_between_requests_postpones_the_ping_after_idle() -> None:
    connection, _ = opened(count=0)
    connection.receive(frame(frames.PING, 0, 0, b"12345678"), 10.0)
    connection.require_ping_after_idle(24.9)
    assert connection.free_stream_count == 100
    connection.require_ping_after_idle(25.0)
    assert connection.free_stream_count == 0


@pytest.mark.parametrize(
    ("code", "resent"),
    [(frames.REFUSED_STREAM, True), (frames.INTERNAL_ERROR, False), (frames.ENHANCE_YOUR_CALM, False), (99, False)],
)
def test_only_refused_streams_are_resent_after_reset(code: int, resent: bool) -> None:
    connection, [request] = opened()
    connection.receive(frames.rst_stream(1, code), 1.0)
    assert connection.resendable == ([request] if resent else [])
    assert [isinstance(response, NoReply) and response.may_have_arrived for _, response in connection.finished] == (
        [] if resent else [True]
    )


def test_partly_sent_request_is_resent_after_reset() -> None:
    connection, _ = opened(count=0)
    connection.receive(frames.settings([(frames.INITIAL_WINDOW_SIZE, 10)]), 0.0)
    large = new_request(b"x" * 100)
    connection.start_request(large, 0.0)
    connection.receive(frames.rst_stream(1, frames.INTERNAL_ERROR), 1.0)
    assert (connection.resendable, connection.finished) == ([large], [])


def test_second_goaway_may_name_an_earlier_stream() -> None:
    connection, requests = opened(count=3)
    connection.receive(frames.goaway(2**31 - 1, frames.NO_ERROR), 1.0)
    assert (connection.resendable, connection.free_stream_count) == ([], 0)
    connection.receive(frames.goaway(3, frames.NO_ERROR), 1.0)
    assert connection.resendable == requests[2:]
    connection.receive(frame(frames.HEADERS, END_FLAGS, 3, OK) + frame(frames.HEADERS, END_FLAGS, 1, OK), 2.0)
    assert [request for request, _ in connection.finished] == [requests[1], requests[0]]
    assert not connection.is_busy


def test_no_request_starts_while_stream_limit_is_exceeded() -> None:
    connection, _ = opened(count=10)
    connection.receive(frames.settings([(frames.MAX_STREAMS, 1)]), 1.0)
    assert connection.free_stream_count == -9
    for stream in range(1, 20, 2):
        connection.receive(frame(frames.HEADERS, END_FLAGS, stream, OK), 1.0)
    assert connection.free_stream_count == 1


def test_receive_window_is_replenished() -> None:
    connection, _ = opened(count=0, streams=2_000)
    for number in range(600):
        connection.start_request(new_request(b""), 0.0)
        connection.send_buffer.on_sent(len(connection.send_buffer.queued))
        stream = 2 * number + 1
        response = frame(frames.HEADERS, frames.END_HEADERS, stream, OK) + frame(frames.DATA, 1, stream, b"x" * 16_000)
        connection.receive(response, 1.0)
        if connection.send_buffer.queued:
            break
    [(kind, _, stream, payload)] = frames.FrameReader().feed(bytes(connection.send_buffer.queued))
    assert (kind, stream) == (frames.WINDOW_UPDATE, 0)
    assert frames.read_uint32(payload) == 16_000 * (number + 1)
