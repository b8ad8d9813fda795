"""HPACK headers are compatible with the package hpack in both directions."""

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.http2.frames import Violation
from notifier.adapters.http2.hpack import (
    TABLE_SIZE_ZERO,
    Decoder,
    decode_huffman,
    decode_without_table,
    encode_field,
    encode_fields,
)

NAMES = st.one_of(
    st.sampled_from([":status", ":path", "authorization", "content-type", "retry-after", "apns-id"]),
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=200),
)
FIELDS = st.lists(st.tuples(NAMES, st.text(max_size=300)), max_size=10)


def as_bytes(fields: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in fields]


@given(FIELDS)
def test_encoded_headers_are_decoded_by_hpack_package(fields: list[tuple[str, str]]) -> None:
    decoded = hpack.Decoder().decode(TABLE_SIZE_ZERO + encode_fields(fields), raw=True)
    assert [(name, value) for name, value in decoded] == as_bytes(fields)
    assert decode_without_table(encode_fields(fields), tableless=False) == as_bytes(fields)


@given(st.lists(FIELDS, max_size=5), st.booleans(), st.sampled_from([0, 100, 4_096]))
def test_headers_encoded_by_hpack_package_are_decoded(
    blocks: list[list[tuple[str, str]]], huffman: bool, table: int
) -> None:
    encoder, decoder = hpack.Encoder(), Decoder()
    encoder.header_table_size = table
    for fields in blocks:
        block = encoder.encode(fields, huffman=huffman)
        assert [(bytes(name), bytes(value)) for name, value in decoder.decode(block)] == as_bytes(fields)


@given(
    st.one_of(st.binary(max_size=100), FIELDS.map(encode_fields).map(lambda block: block[:-1])),
    st.booleans(),
)
def test_decoding_without_table_agrees_with_hpack_package(block: bytes, tableless: bool) -> None:
    reference = hpack.Decoder()
    reference.header_table_size = 0 if tableless else 4_096
    try:
        expected = [(bytes(name), bytes(value)) for name, value in reference.decode(block, raw=True)]
    except hpack.HPACKError:
        expected = None
    result = decode_without_table(block, tableless=tableless)
    assert result is None or result == expected


@given(st.binary(max_size=60))
def test_huffman_decoding_agrees_with_hpack_package(packed: bytes) -> None:
    block = b"\x00\x01a" + bytes([0x80 | len(packed)]) + packed
    try:
        [(_, expected)] = hpack.Decoder().decode(block, raw=True)
    except hpack.HPACKError:
        assert decode_huffman(packed) is None
    else:
        assert decode_huffman(packed) == expected


@pytest.mark.parametrize(
    "block", [b"\x80", b"\xff", b"\x00", b"\x00\x01a", b"\x3f\xff\xff\xff\x7f", b"\xbe", b"\x0f\xff"]
)
def test_invalid_header_block_is_a_violation(block: bytes) -> None:
    with pytest.raises(Violation):
        Decoder().decode(block)


def test_header_bomb_is_a_violation() -> None:
    entry = b"\x40\x01a" + b"\x7f\xa1\x1e" + b"x" * 4_000  # one table entry of 4,000 bytes, referenced again and again
    with pytest.raises(Violation):
        Decoder().decode(entry + b"\xbe" * 1_000)


@pytest.mark.parametrize("name", ["authorization", "cookie"])
def test_secret_headers_are_never_indexed(name: str) -> None:
    assert encode_field(name, "bearer x")[0] & 0xF0 == 0x10
