"""Devices: ranks of changes, drops by providers, and the limit per user."""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.codec.devices_send_log_suppressions import (
    pack_device_record,
    pack_registration,
    unpack_device_record,
    unpack_registration,
)
from notifier.codec.messagepack import from_ms, to_ms
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
from tests.support.fakes.clock_and_nonces import START

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


def test_device_id_depends_on_the_address_only() -> None:
    assert len({device_id(address) for address in ADDRESSES}) == len(ADDRESSES)
    assert replace(device(), member=Member(8)).id == device().id


def test_subscription_with_new_keys_is_the_same_device() -> None:
    old = WebSubscription(endpoint="https://push.example/1", key=b"\x04" + bytes(64), secret=bytes(16))
    assert device_id(replace(old, secret=b"s" * 16)) == device_id(old)


@pytest.mark.parametrize(("at", "is_dropped"), [(-1.0, False), (-0.001, False), (0.0, True), (5.0, True), (None, True)])
def test_drop_token_respects_registration(at: float | None, is_dropped: bool) -> None:
    """A drop counts only if the device was not registered again after the provider's time."""
    since = None if at is None else START + timedelta(seconds=at)
    drop = removal_by_provider(device(), since, START + timedelta(minutes=1))
    assert (drop is not None) is is_dropped
    if drop is not None:
        assert drop.rank > device().rank
        assert drop.rank < device(5.001).rank


def test_drop_dated_in_the_future_spares_later_registrations() -> None:
    drop = removal_by_provider(device(), START + timedelta(hours=2), now=START + timedelta(seconds=3))
    assert drop is not None
    assert device().rank < drop.rank < device(3.001).rank


def test_drop_without_a_time_means_the_device_as_sent_to() -> None:
    drop = removal_by_provider(device(2), None, START + timedelta(minutes=1))
    assert drop is not None
    assert device(2).rank < drop.rank < device(2.001).rank


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(seconds=9)])
def test_change_is_later_than_the_current_record_despite_slow_clock(ahead: timedelta) -> None:
    before = DeviceOwnership(member=ADA, platform=Platform.APNS, at=START + ahead, is_removed=True)
    at = next_update_time(START, before)
    assert at == START + ahead + timedelta(milliseconds=1)
    assert replace(device(), registered_at=at).rank > before.rank


def test_change_time_is_rounded_to_milliseconds() -> None:
    assert next_update_time(START + timedelta(microseconds=1_999), None) == START + timedelta(milliseconds=1)


def test_oldest_devices_beyond_twenty_are_dropped() -> None:
    devices = [device(n, FirebaseToken(token=f"{n:040}")) for n in range(MAX_DEVICES + 3)]
    shuffled = Random(1).sample(devices, len(devices))
    assert sorted(drop.id for drop in surplus_removals(shuffled)) == sorted(
        dropped_device.id for dropped_device in devices[:3]
    )
    assert surplus_removals(devices[:MAX_DEVICES]) == []


@given(
    st.sampled_from(ADDRESSES),
    st.integers(0, 2**40),
    st.integers(0, 2**41).map(from_ms),
    st.booleans(),
)
def test_stored_device_is_read_as_written(address: Address, member: int, at: datetime, known: bool) -> None:
    stored = Device(
        member=Member(member),
        address=address,
        locale="pt-BR",
        time_zone="Asia/Tokyo",
        registered_at=at,
    )
    assert unpack_registration(stored.member, pack_registration(stored), to_ms(stored.registered_at)) == stored
    for state in (stored, removal_of(stored), None):
        record = DeviceRecord(update=state, is_known_holder=known, rebuild_shard=None if state else 5)
        assert unpack_device_record(pack_device_record(record)) == record


@pytest.mark.parametrize("blob", [b"", b"\xc1", b"\x93\x91\xa3fax\xa2en\xa3UTC"])
def test_invalid_device_bytes_are_poison(blob: bytes) -> None:
    with pytest.raises(Poison):
        unpack_registration(ADA, blob, 1)
    with pytest.raises(Poison):
        unpack_device_record(blob)
