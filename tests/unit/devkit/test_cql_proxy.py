"""The CQL proxy simulates an overloaded node: refused writes and write timeouts."""

import struct

from notifier.devkit.cql_proxy import (
    BATCH,
    ERROR,
    EXECUTE,
    HEADER,
    OPTIONS,
    OVERLOADED,
    REQUEST_VERSION,
    RESULT,
    SUPPORTED,
    VOID,
    WRITE_TIMEOUT,
    CqlProxy,
    RefusalHook,
)

QUERY, ROWS = 0x07, struct.pack(">i", 2)


def frame(stream: int, opcode: int, body: bytes = b"") -> bytes:
    return HEADER.pack(REQUEST_VERSION, 0, stream, opcode, len(body)) + body


def code(response: bytes) -> int:
    assert response[4] == ERROR
    return int.from_bytes(response[HEADER.size : HEADER.size + 4], "big")


def connect(*, is_refusing: bool = True) -> RefusalHook:
    return RefusalHook(CqlProxy(is_refusing=is_refusing))


def test_frames_pass_unchanged_without_refusals() -> None:
    connection = connect(is_refusing=False)
    for n in range(8):
        request, response = frame(n, EXECUTE, b"write"), frame(n, RESULT, VOID)
        assert (connection.change_request(request), connection.change_response(response)) == (request, response)


def test_overloaded_write_is_not_forwarded() -> None:
    connection = connect()
    assert connection.change_request(frame(7, EXECUTE, b"first")) == frame(7, EXECUTE, b"first")
    assert connection.change_request(frame(8, BATCH, b"second")) == frame(8, OPTIONS)
    assert code(connection.change_response(frame(8, SUPPORTED, b"\0\0"))) == OVERLOADED
    assert connection.proxy.error_count == 1


def test_write_that_times_out_is_forwarded() -> None:
    connection = connect()
    forwarded = [connection.change_request(frame(n, EXECUTE, b"write")) for n in range(4)]
    assert forwarded[3] == frame(3, EXECUTE, b"write")
    assert code(connection.change_response(frame(3, RESULT, VOID))) == WRITE_TIMEOUT


def test_responses_with_rows_pass_unchanged() -> None:
    connection = connect()
    for n in range(4):
        connection.change_request(frame(n, EXECUTE))
    assert connection.change_response(frame(3, RESULT, ROWS)) == frame(3, RESULT, ROWS)
    assert connection.change_response(frame(3, RESULT, VOID)) == frame(3, RESULT, VOID), (
        "the next response of the stream belongs to another request"
    )


def test_driver_queries_are_never_refused() -> None:
    connection = connect()
    assert [connection.change_request(frame(n, QUERY)) for n in range(4)] == [frame(n, QUERY) for n in range(4)]


def test_frames_split_at_any_byte_are_forwarded() -> None:
    connection, stream = connect(is_refusing=False), frame(1, EXECUTE, b"x" * 40) + frame(2, QUERY)
    assert b"".join(connection.change_request(stream[i : i + 3]) for i in range(0, len(stream), 3)) == stream
