"""A bitmap is the same set in every encoding."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import (
    CHECKSUM_BYTES,
    SHARD_MEMBERS,
    Bits,
    contains,
    count,
    decode,
    encode,
    from_offsets,
    members,
    offsets,
)
from notifier.domain.errors import Poison
from notifier.domain.ids import Member
from tests.properties.random_member_sets import BITMAPS, PLACES


@given(BITMAPS)
@settings(max_examples=60)
def test_encoding_round_trips(bits: Bits) -> None:
    assert np.array_equal(decode(encode(bits)), bits)


@given(BITMAPS)
@settings(max_examples=60)
def test_encoding_is_never_larger_than_the_dense_form(bits: Bits) -> None:
    assert len(encode(bits)) <= SHARD_MEMBERS // 8 + 1 + CHECKSUM_BYTES


@given(PLACES)
@settings(max_examples=60)
def test_offsets_round_trip(places: set[int]) -> None:
    bits = from_offsets(places)
    assert offsets(bits).tolist() == sorted(places)
    assert count(bits) == len(places)


@given(PLACES, st.integers(0, 1_525), st.integers(0, SHARD_MEMBERS - 1))
@settings(max_examples=60)
def test_member_is_held_exactly_if_listed(places: set[int], shard: int, offset: int) -> None:
    bits = from_offsets(places)
    listed = members(bits, shard)
    assert all(contains(bits, member) for member in listed)
    tested = Member(shard * SHARD_MEMBERS + offset)
    assert contains(bits, tested) is (tested in listed)


@given(PLACES.map(from_offsets).map(encode), st.integers(0, 200), st.binary(max_size=8))
@settings(max_examples=100)
def test_corrupted_bytes_are_poison_or_a_bitmap(blob: bytes, position: int, noise: bytes) -> None:
    corrupted = blob[:position] + noise + blob[position + len(noise) :]
    try:
        assert count(decode(corrupted)) <= SHARD_MEMBERS
    except Poison:
        assert corrupted != blob
