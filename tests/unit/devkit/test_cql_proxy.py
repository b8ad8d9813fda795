"""The proxy that refuses as a node in trouble: half of what it refuses never arrives, the other half takes effect."""

import struct

from notifier.devkit.cql_proxy import (
    BATCH,
    ERROR,
    EXECUTE,
    HEADER,
    OPTIONS,
    OVERLOADED,
    RESULT,
    SUPPORTED,
    VERSION,
    VOID,
    WRITE_TIMEOUT,
    CqlProxy,
    Refusals,
)

QUERY, ROWS = 0x07, struct.pack(">i", 2)


def frame(stream: int, opcode: int, body: bytes = b"") -> bytes:
    return HEADER.pack(VERSION, 0, stream, opcode, len(body)) + body


def code(answer: bytes) -> int:
    assert answer[4] == ERROR
    return int.from_bytes(answer[HEADER.size : HEADER.size + 4], "big")


def talk(*, refusing: bool = True) -> Refusals:
    return Refusals(CqlProxy(refusing=refusing))


def test_without_trouble_everything_is_carried_as_it_is() -> None:
    carrying = talk(refusing=False)
    for n in range(8):
        asked, answered = frame(n, EXECUTE, b"write"), frame(n, RESULT, VOID)
        assert (carrying.forth(asked), carrying.back(answered)) == (asked, answered)


def test_what_is_refused_as_overloaded_never_arrives() -> None:
    refusing = talk()
    assert refusing.forth(frame(7, EXECUTE, b"first")) == frame(7, EXECUTE, b"first")
    assert refusing.forth(frame(8, BATCH, b"second")) == frame(8, OPTIONS)
    assert code(refusing.back(frame(8, SUPPORTED, b"\0\0"))) == OVERLOADED
    assert refusing.proxy.refused == 1


def test_a_write_timeout_is_told_of_what_took_effect() -> None:
    refusing = talk()
    arrived = [refusing.forth(frame(n, EXECUTE, b"write")) for n in range(4)]
    assert arrived[3] == frame(3, EXECUTE, b"write")
    assert code(refusing.back(frame(3, RESULT, VOID))) == WRITE_TIMEOUT


def test_reads_and_conditional_writes_are_answered_with_their_rows() -> None:
    refusing = talk()
    for n in range(4):
        refusing.forth(frame(n, EXECUTE))
    assert refusing.back(frame(3, RESULT, ROWS)) == frame(3, RESULT, ROWS)
    assert refusing.back(frame(3, RESULT, VOID)) == frame(3, RESULT, VOID), "the stream's next one is another question"


def test_what_the_driver_asks_for_itself_is_answered() -> None:
    refusing = talk()
    assert [refusing.forth(frame(n, QUERY)) for n in range(4)] == [frame(n, QUERY) for n in range(4)]


def test_frames_may_come_in_any_pieces() -> None:
    refusing, whole = talk(refusing=False), frame(1, EXECUTE, b"x" * 40) + frame(2, QUERY)
    assert b"".join(refusing.forth(whole[i : i + 3]) for i in range(0, len(whole), 3)) == whole
