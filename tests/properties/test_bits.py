"""A bitmap is the same set in every form."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import (
    SHARD_MEMBERS,
    SUM_BYTES,
    Bits,
    count,
    decode,
    encode,
    from_offsets,
    holds,
    members,
    offsets,
)
from notifier.domain.errors import Poison
from notifier.domain.ids import Member
from tests.properties.crowds import BITMAPS, PLACES


@given(BITMAPS)
@settings(max_examples=60)
def test_what_is_encoded_is_decoded_again(bits: Bits) -> None:
    assert np.array_equal(decode(encode(bits)), bits)


@given(BITMAPS)
@settings(max_examples=60)
def test_no_form_is_larger_than_the_dense_one(bits: Bits) -> None:
    assert len(encode(bits)) <= SHARD_MEMBERS // 8 + 1 + SUM_BYTES


@given(PLACES)
@settings(max_examples=60)
def test_places_go_in_and_come_out(places: set[int]) -> None:
    bits = from_offsets(places)
    assert offsets(bits).tolist() == sorted(places)
    assert count(bits) == len(places)


@given(PLACES, st.integers(0, 1_525), st.integers(0, SHARD_MEMBERS - 1))
@settings(max_examples=60)
def test_a_member_is_held_if_and_only_if_it_is_listed(places: set[int], shard: int, place: int) -> None:
    bits = from_offsets(places)
    listed = members(bits, shard)
    assert all(holds(bits, member) for member in listed)
    asked = Member(shard * SHARD_MEMBERS + place)
    assert holds(bits, asked) is (asked in listed)


@given(PLACES.map(from_offsets).map(encode), st.integers(0, 200), st.binary(max_size=8))
@settings(max_examples=100)
def test_spoiled_bytes_are_poison_or_a_bitmap_and_nothing_else(blob: bytes, at: int, noise: bytes) -> None:
    spoiled = blob[:at] + noise + blob[at + len(noise) :]
    try:
        assert count(decode(spoiled)) <= SHARD_MEMBERS
    except Poison:
        assert spoiled != blob
