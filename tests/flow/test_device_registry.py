"""Device registry: registrations take effect at once and move devices to their new user."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.push.device import (
    MAX_DEVICES,
    AppleToken,
    DeviceId,
    FirebaseInstallation,
    FirebaseToken,
    device_id,
)
from notifier.ports.event_log_and_dead_letters import Record
from tests.flow.in_memory_device_indexer import PEOPLE, DeviceWorld, address_of
from tests.flow.in_memory_graph_indexer import Fuse

ADA = PEOPLE["ada"]


def test_repeated_registration_updates_the_device() -> None:
    world = DeviceWorld()
    world.register("ada")
    world.clock.advance(timedelta(days=1))
    again = world.registry().register(ADA, address_of(0), locale="pt-BR", time_zone="Asia/Tokyo")
    assert world.registry().list_devices(ADA) == [again]
    assert again.registered_at == world.clock.now()


def test_devices_are_listed_newest_first() -> None:
    world = DeviceWorld()
    devices = [world.register("ada", n) for n in range(3)]
    assert world.registry().list_devices(ADA) == devices[::-1]


def test_registration_moves_the_device_to_the_new_user() -> None:
    world = DeviceWorld()
    world.register("ada")
    world.register("cleo")
    assert world.device_counts() == {"cleo": 1}
    world.index_all()
    assert world.alertable() == {"cleo"}


def test_former_user_cannot_unregister_the_device() -> None:
    world = DeviceWorld()
    device = world.register("ada")
    world.register("bea")
    assert not world.unregister("ada", device)
    assert world.device_counts() == {"bea": 1}
    assert world.unregister("bea", device)
    assert not world.unregister("bea", device)
    assert not world.registry().unregister(PEOPLE["bea"], DeviceId("0" * 32))
    assert world.device_counts() == {}


def test_registration_after_unregister_works_with_a_slow_clock() -> None:
    world = DeviceWorld()
    device = world.register("ada")
    world.unregister("ada", device)
    world.clock.advance(-timedelta(seconds=30))
    world.register("ada")
    assert world.device_counts() == {"ada": 1}


def test_registrations_beyond_the_limit_remove_the_oldest_devices() -> None:
    world = DeviceWorld()
    devices = [world.register("ada", n) for n in range(10_000)]
    assert world.registry().list_devices(ADA) == devices[: -MAX_DEVICES - 1 : -1]


def test_refreshed_device_is_not_removed_by_the_limit() -> None:
    world = DeviceWorld()
    first = [world.register("ada", n) for n in range(MAX_DEVICES)]
    world.register("ada", 0)
    world.register("ada", 99)
    remaining = {device.id for device in world.registry().list_devices(ADA)}
    assert (first[0].id in remaining, first[1].id in remaining, len(remaining)) == (True, False, MAX_DEVICES)


def test_installation_id_replaces_a_token_only_on_request() -> None:
    world, token = DeviceWorld(), FirebaseToken(token="t" * 140)
    fid = FirebaseInstallation(fid="dIsVQ2QVRT-TW7L6VfeAMh")
    world.register("ada", token)
    world.register("ada", fid)
    assert world.device_counts() == {"ada": 2}
    world.register("ada", fid, replaces=token)
    assert [device.address for device in world.registry().list_devices(ADA)] == [fid]
    world.register("ada", fid, replaces=token)
    world.index_all()
    assert (world.device_counts(), world.alertable()) == ({"ada": 1}, {"ada"})


def test_registration_cannot_replace_a_device_of_another_user() -> None:
    world, token = DeviceWorld(), FirebaseToken(token="t" * 140)
    world.register("bea", token)
    world.register("ada", FirebaseInstallation(fid="dIsVQ2QVRT-TW7L6VfeAMh"), replaces=token)
    assert world.device_counts() == {"ada": 1, "bea": 1}


def test_drop_removes_a_device_unless_it_was_registered_later() -> None:
    """A provider reports since when a token is invalid; a later registration stays, for any user."""
    world = DeviceWorld()
    sent_to = world.register("ada")
    at = world.clock.now()
    again = world.register("ada")
    assert not world.registry().remove_rejected({sent_to: at})
    assert not world.registry().remove_rejected({sent_to: None})
    assert not world.registry().remove_rejected({again: at})
    assert world.device_counts() == {"ada": 1}
    assert world.registry().remove_rejected({again: None})
    assert not world.registry().remove_rejected({again: None})
    world.index_all()
    assert (world.device_counts(), world.alertable()) == ({}, set())


def test_drop_after_a_move_removes_the_device_of_its_new_user() -> None:
    world = DeviceWorld()
    sent_to = world.register("ada")
    world.register("cleo")
    world.index_all()
    world.clock.advance(timedelta(seconds=1))
    assert world.registry().remove_rejected({sent_to: world.clock.now()})
    world.index_all()
    assert (world.device_counts(), world.alertable()) == ({}, set())


def test_drop_from_before_a_move_changes_nothing() -> None:
    world = DeviceWorld()
    sent_to = world.register("ada")
    at = world.clock.now()
    world.register("cleo")
    assert not world.registry().remove_rejected({sent_to: at})
    assert world.device_counts() == {"cleo": 1}


def test_unregister_of_an_unknown_id_keeps_the_device() -> None:
    world = DeviceWorld()
    address = AppleToken(token="ab" * 32, topic="com.example.app")
    world.register("ada", address)
    assert not world.registry().unregister(ADA, DeviceId("0" * 32))
    assert [device.id for device in world.registry().list_devices(ADA)] == [device_id(address)]


def test_registration_fails_while_the_log_is_unavailable() -> None:
    class UnavailableLog:
        def append(self, _: list[Record]) -> None:
            raise LogUnavailable

    world = DeviceWorld()
    with pytest.raises(LogUnavailable):
        world.register("ada", registry=world.registry(log=UnavailableLog()))
    assert world.device_counts() == {}


@given(st.lists(st.tuples(st.sampled_from(sorted(PEOPLE)), st.integers(0, 1), st.booleans()), max_size=8), st.data())
@settings(max_examples=150, deadline=None)
def test_rows_and_bitmaps_agree_after_crashes(changes: list[tuple[str, int, bool]], data: st.DataObject) -> None:
    """An answered call took effect, and the bitmaps equal the rows once the log is indexed."""
    world = DeviceWorld()
    for user, number, unregisters in changes:
        fuse = Fuse(data.draw(st.integers(0, 6)))
        world.clock.advance(timedelta(seconds=1))
        registry = world.registry(devices=fuse.on(world.devices), log=fuse.on(world.log))
        try:
            if unregisters:
                registry.unregister(PEOPLE[user], device_id(address_of(number)))
            else:
                registry.register(PEOPLE[user], address_of(number), locale="en", time_zone="UTC")
        except StoreUnavailable:
            continue  # the result is unknown
        owner = [device.id for device in world.devices.by_member([PEOPLE[user]]).get(PEOPLE[user], ())]
        assert (device_id(address_of(number)) in owner) is not unregisters
    for _ in range(2):
        world.index_all()
        assert world.alertable() == set(world.device_counts())
