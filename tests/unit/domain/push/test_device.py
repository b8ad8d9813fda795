"""Devices: what a word ranks, whom a provider's drop is about, and who is one too many."""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.codec.push import pack_device_record, pack_registration, unpack_device_record, unpack_registration
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.errors import Poison
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import (
    MAX_DEVICES,
    Address,
    ApnsEnvironment,
    AppleToken,
    Device,
    DeviceOwnership,
    DeviceRecord,
    FirebaseInstallation,
    FirebaseToken,
    WebSubscription,
    device_id,
    next_update_time,
    removal_by_provider,
    removal_of,
    surplus_removals,
)
from tests.support.fakes.clock import START

ADA = Member(7)
ADDRESSES: list[Address] = [
    AppleToken(token="ab" * 32, topic="com.example.app"),
    AppleToken(token="ab" * 32, topic="com.example.app", environment=ApnsEnvironment.SANDBOX),
    AppleToken(token="ab" * 32, topic="com.example.other"),
    FirebaseToken(token="c" * 22),
    FirebaseInstallation(fid="c" * 22),
    WebSubscription(endpoint="https://push.example/1", key=b"\x04" + bytes(64), secret=bytes(16)),
]


def device(second: float = 0, address: Address = ADDRESSES[0]) -> Device:
    return Device(member=ADA, address=address, registered_at=START + timedelta(seconds=second))


def test_each_address_is_a_device_of_its_own_whoever_has_it() -> None:
    assert len({device_id(address) for address in ADDRESSES}) == len(ADDRESSES)
    assert replace(device(), member=Member(8)).id == device().id


def test_new_keys_of_a_subscription_are_the_same_device() -> None:
    old = WebSubscription(endpoint="https://push.example/1", key=b"\x04" + bytes(64), secret=bytes(16))
    assert device_id(replace(old, secret=b"s" * 16)) == device_id(old)


@pytest.mark.parametrize(("at", "goes"), [(-1.0, False), (-0.001, False), (0.0, True), (5.0, True), (None, True)])
def test_drop_token_respects_registration(at: float | None, goes: bool) -> None:
    """A provider's word counts only if the device wasn't registered again after the provider's moment."""
    since = None if at is None else START + timedelta(seconds=at)
    word = removal_by_provider(device(), since, START + timedelta(minutes=1))
    assert (word is not None) is goes
    if word is not None:
        assert word.rank > device().rank
        assert word.rank < device(5.001).rank


def test_a_provider_whose_clock_is_ahead_says_nothing_of_registrations_that_are_to_come() -> None:
    word = removal_by_provider(device(), START + timedelta(hours=2), now=START + timedelta(seconds=3))
    assert word is not None
    assert device().rank < word.rank < device(3.001).rank


def test_who_doesn_t_say_since_when_means_the_device_as_it_was_sent_to() -> None:
    word = removal_by_provider(device(2), None, START + timedelta(minutes=1))
    assert word is not None
    assert device(2).rank < word.rank < device(2.001).rank


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(seconds=9)])
def test_a_word_is_said_after_what_stands_whatever_the_clocks_say(ahead: timedelta) -> None:
    before = DeviceOwnership(member=ADA, platform=Platform.APNS, at=START + ahead, is_removed=True)
    at = next_update_time(START, before)
    assert at == START + ahead + timedelta(milliseconds=1)
    assert replace(device(), registered_at=at).rank > before.rank


def test_a_moment_is_what_every_store_tells_apart() -> None:
    assert next_update_time(START + timedelta(microseconds=1_999), None) == START + timedelta(milliseconds=1)


def test_beyond_twenty_those_that_were_registered_longest_ago_go() -> None:
    each = [device(n, FirebaseToken(token=f"{n:040}")) for n in range(MAX_DEVICES + 3)]
    shuffled = Random(1).sample(each, len(each))
    assert sorted(word.id for word in surplus_removals(shuffled)) == sorted(one.id for one in each[:3])
    assert surplus_removals(each[:MAX_DEVICES]) == []


@given(
    st.sampled_from(ADDRESSES),
    st.integers(0, 2**40),
    st.integers(0, 2**41).map(from_ms),
    st.booleans(),
)
def test_what_the_stores_and_the_log_keep_is_read_as_it_was(
    address: Address, member: int, at: datetime, known: bool
) -> None:
    one = Device(
        member=Member(member),
        address=address,
        locale="pt-BR",
        time_zone="Asia/Tokyo",
        registered_at=at,
    )
    assert unpack_registration(one.member, pack_registration(one), to_ms(one.registered_at)) == one
    for word in (one, removal_of(one), None):
        record = DeviceRecord(update=word, is_known_holder=known, rebuild_shard=None if word else 5)
        assert unpack_device_record(pack_device_record(record)) == record


@pytest.mark.parametrize("blob", [b"", b"\xc1", b"\x93\x91\xa3fax\xa2en\xa3UTC"])
def test_bytes_that_are_no_device_are_poison(blob: bytes) -> None:
    with pytest.raises(Poison):
        unpack_registration(ADA, blob, 1)
    with pytest.raises(Poison):
        unpack_device_record(blob)
