"""Headers as bytes: other people's HPACK (the package hpack) reads what we write, and we read what it writes."""

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.http2.frames import Violation
from notifier.adapters.http2.hpack import NO_TABLE, Decoder, encoded, field, plain, unpacked

NAMES = st.one_of(
    st.sampled_from([":status", ":path", "authorization", "content-type", "retry-after", "apns-id"]),
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=200),
)
FIELDS = st.lists(st.tuples(NAMES, st.text(max_size=300)), max_size=10)


def as_bytes(fields: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in fields]


@given(FIELDS)
def test_others_read_what_we_write_and_so_do_we(fields: list[tuple[str, str]]) -> None:
    theirs = hpack.Decoder().decode(NO_TABLE + encoded(fields), raw=True)
    assert [(name, value) for name, value in theirs] == as_bytes(fields)
    assert plain(encoded(fields), tableless=False) == as_bytes(fields)


@given(st.lists(FIELDS, max_size=5), st.booleans(), st.sampled_from([0, 100, 4_096]))
def test_we_read_what_others_write_in_every_way(blocks: list[list[tuple[str, str]]], packs: bool, table: int) -> None:
    theirs, ours = hpack.Encoder(), Decoder()
    theirs.header_table_size = table
    for fields in blocks:
        block = theirs.encode(fields, huffman=packs)
        assert [(bytes(name), bytes(value)) for name, value in ours.decode(block)] == as_bytes(fields)


@given(
    st.one_of(st.binary(max_size=100), FIELDS.map(encoded).flatmap(lambda block: st.just(block[:-1]))), st.booleans()
)
def test_what_we_read_by_ourselves_others_read_the_same(block: bytes, tableless: bool) -> None:
    theirs = hpack.Decoder()
    theirs.header_table_size = 0 if tableless else 4_096
    try:
        expected = [(bytes(name), bytes(value)) for name, value in theirs.decode(block, raw=True)]
    except hpack.HPACKError:
        expected = None
    found = plain(block, tableless=tableless)
    assert found is None or found == expected


@given(st.binary(max_size=60))
def test_packed_letters_are_unpacked_as_others_do(packed: bytes) -> None:
    block = b"\x00\x01a" + bytes([0x80 | len(packed)]) + packed
    try:
        [(_, expected)] = hpack.Decoder().decode(block, raw=True)
    except hpack.HPACKError:
        assert unpacked(packed) is None
    else:
        assert unpacked(packed) == expected


@pytest.mark.parametrize(
    "block", [b"\x80", b"\xff", b"\x00", b"\x00\x01a", b"\x3f\xff\xff\xff\x7f", b"\xbe", b"\x0f\xff"]
)
def test_what_cannot_be_read_breaks_the_connection(block: bytes) -> None:
    with pytest.raises(Violation):
        Decoder().decode(block)


def test_a_bomb_of_headers_breaks_the_connection() -> None:
    entered = (
        b"\x40\x01a" + b"\x7f\xa1\x1e" + b"x" * 4_000
    )  # one entry of 4,000 bytes, and then it is named again and again
    with pytest.raises(Violation):
        Decoder().decode(entered + b"\xbe" * 1_000)


@pytest.mark.parametrize("name", ["authorization", "cookie"])
def test_a_secret_is_never_entered_in_a_table_on_its_way(name: str) -> None:
    assert field(name, "bearer x")[0] & 0xF0 == 0x10
