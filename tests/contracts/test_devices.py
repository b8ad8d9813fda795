"""Device registrations: the highest-ranked change wins, regardless of arrival order."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count, permutations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_MEMBERS, from_offsets, members
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import (
    DEVICE_KEPT_FOR,
    Address,
    ApnsEnvironment,
    AppleToken,
    Device,
    DeviceId,
    DeviceOwnership,
    DeviceRemoval,
    DeviceUpdate,
    FirebaseInstallation,
    FirebaseToken,
    WebSubscription,
    removal_of,
)
from notifier.ports.push import Devices
from tests.contracts.memory_and_sqlite_backends import Backend
from tests.support.fakes.clock_and_nonces import START

ADA, BEA = Member(7), Member(3 * SHARD_MEMBERS + 5)
PHONE = AppleToken(token="ab" * 32, topic="com.example.app")
OTHER_ADDRESSES: list[Address] = [
    AppleToken(token="ab" * 32, topic="com.example.app", environment=ApnsEnvironment.SANDBOX),
    FirebaseToken(token="t" * 140),
    FirebaseInstallation(fid="c" * 22),
    WebSubscription(endpoint="https://push.example/1", key=b"\x04" + bytes(range(64)), secret=bytes(range(16))),
]


@pytest.fixture(autouse=True)
def truncate_devices(request: pytest.FixtureRequest) -> None:
    """Truncate the devices before each test: a table that holds only deletions looks empty, but they would count."""
    if request.node.callspec.params["backend"] == "cassandra":
        request.getfixturevalue("cluster").execute("TRUNCATE devices")


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def registered(member: Member = ADA, second: float = 1, address: Address = PHONE, locale: str = "en") -> Device:
    return Device(member=member, address=address, locale=locale, time_zone="Asia/Tokyo", registered_at=at(second))


def removed(device: Device, second: float) -> DeviceRemoval:
    return replace(removal_of(device), at=at(second))


def devices_by_member(devices: Devices, *requested: Member) -> dict[Member, list[Device]]:
    return {
        member: list(devices_of_member)
        for member, devices_of_member in devices.by_member(requested or (ADA, BEA)).items()
    }


def members_with_device(devices: Devices, shard: int = 0) -> list[Member]:
    return members(devices.members_with_device(shard), shard)


def test_unregistered_device_has_no_state(backend: Backend) -> None:
    backend.devices.write([])
    assert (backend.devices.read_current([DeviceId("0" * 32)]), devices_by_member(backend.devices)) == ({}, {})
    assert (members_with_device(backend.devices), backend.devices.read_current([]), backend.devices.by_member([])) == (
        [],
        {},
        {},
    )


def test_devices_of_every_kind_are_read_as_registered(backend: Backend) -> None:
    registrations = [registered(address=address, locale="pt-BR") for address in (PHONE, *OTHER_ADDRESSES)]
    backend.devices.write([*registrations, registered(BEA, address=FirebaseToken(token="b" * 140))])
    assert devices_by_member(backend.devices, ADA) == {
        ADA: sorted(registrations, key=lambda device: (device.platform, device.id))
    }
    for platform in Platform:
        reached = list(backend.devices.iter_devices(platform, 0, from_offsets([ADA])))
        assert reached == sorted(
            (device for device in registrations if device.platform is platform), key=lambda device: device.id
        )
    first = registrations[0]
    assert backend.devices.read_current([first.id]) == {
        first.id: DeviceOwnership(member=ADA, platform=Platform.APNS, at=first.registered_at)
    }
    assert (
        members_with_device(backend.devices),
        members_with_device(backend.devices, 1),
        members_with_device(backend.devices, 3),
    ) == ([ADA], [], [BEA])


def test_newest_registration_wins_in_any_order(backend: Backend) -> None:
    changes = [registered(second=n, locale=locale) for n, locale in ((1, "en"), (2, "de"), (3, "fr"))]
    for n, order in enumerate(permutations(changes)):
        member, address = Member(100 + n), FirebaseToken(token=f"{n}" * 40)
        for change in order:
            backend.devices.write([replace(change, member=member, address=address)])
        assert devices_by_member(backend.devices, member) == {
            member: [replace(changes[-1], member=member, address=address)]
        }


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_registration_by_another_account_moves_the_device(backend: Backend, order: tuple[int, ...]) -> None:
    changes = [registered(ADA, 1), registered(BEA, 2), registered(ADA, 1.5)]
    for index in order:
        backend.devices.write([changes[index]])
    assert devices_by_member(backend.devices) == {BEA: [changes[1]]}
    assert (members_with_device(backend.devices), members_with_device(backend.devices, 3)) == ([], [BEA])
    assert [*backend.devices.iter_devices(Platform.APNS, 0, from_offsets([ADA]))] == []
    assert [*backend.devices.iter_devices(Platform.APNS, 3, from_offsets([BEA % SHARD_MEMBERS]))] == [changes[1]]


def test_device_belongs_to_account_that_registered_last(backend: Backend) -> None:
    for n in range(6):
        backend.devices.write([registered((ADA, BEA)[n % 2], n)])
        assert devices_by_member(backend.devices) == {(ADA, BEA)[n % 2]: [registered((ADA, BEA)[n % 2], n)]}


def test_concurrent_registrations_resolve_to_same_account(backend: Backend) -> None:
    for n, order in enumerate(permutations([ADA, BEA])):
        address = FirebaseToken(token=f"{n}" * 40)
        for member in order:
            backend.devices.write([registered(member, 1, address)])
        assert {member: len(registrations) for member, registrations in devices_by_member(backend.devices).items()} == {
            BEA: n + 1
        }


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_late_registration_does_not_restore_removed_device(backend: Backend, order: tuple[int, ...]) -> None:
    """The device is unregistered by its current user, or dropped by its provider, which does not check the user."""
    changes: list[DeviceUpdate] = [registered(ADA, 1), registered(BEA, 2), removed(registered(BEA), 3)]
    for index in order:
        backend.devices.write([changes[index]])
    assert devices_by_member(backend.devices) == {}
    current = backend.devices.read_current([changes[0].id])
    assert current == {changes[0].id: DeviceOwnership(member=BEA, platform=Platform.APNS, at=at(3), is_removed=True)}
    backend.devices.write([registered(ADA, 2.5)])
    assert devices_by_member(backend.devices) == {}
    backend.devices.write([registered(ADA, 4)])
    assert devices_by_member(backend.devices) == {ADA: [registered(ADA, 4)]}


def test_removal_wins_over_registration_at_same_time(backend: Backend) -> None:
    for n, order in enumerate(permutations([0, 1])):
        device = registered(address=FirebaseToken(token=f"{n}" * 40))
        for index in order:
            backend.devices.write([(device, removal_of(device))[index]])
        assert devices_by_member(backend.devices) == {}
        later = replace(device, registered_at=device.registered_at + timedelta(milliseconds=1))
        backend.devices.write([later])
        assert devices_by_member(backend.devices) == {ADA: [later]}
        backend.devices.write([removed(device, 9)])


def test_highest_rank_wins_within_batch(backend: Backend) -> None:
    other_device = registered(address=OTHER_ADDRESSES[1])
    changes: list[DeviceUpdate] = [registered(BEA, 2), registered(ADA, 3), registered(BEA, 1), registered(ADA, 2.5)]
    backend.devices.write(
        [*changes, other_device, removed(other_device, 1.5), replace(other_device, registered_at=at(2))]
    )
    assert devices_by_member(backend.devices) == {ADA: [registered(ADA, 3), replace(other_device, registered_at=at(2))]}


def test_drop_for_previous_user_removes_device_of_current_user(backend: Backend) -> None:
    """An address that the provider rejects belongs to no user, even after it moved to another."""
    backend.devices.write([registered(ADA, 1), registered(BEA, 2)])
    backend.devices.write([removed(registered(ADA), 5)])
    assert (devices_by_member(backend.devices), members_with_device(backend.devices, 3)) == ({}, [])


def test_slice_reads_only_its_own_devices_in_order(backend: Backend) -> None:
    offsets = [0, 1, BLOCK_MEMBERS - 1, BLOCK_MEMBERS, 9 * BLOCK_MEMBERS + 3, SHARD_MEMBERS - 1]
    registrations = [
        registered(Member(SHARD_MEMBERS + offset), address=FirebaseToken(token=f"{n:040}"))
        for n, offset in enumerate([*offsets, 5, SHARD_MEMBERS, 2 * SHARD_MEMBERS])
    ]
    backend.devices.write(registrations)
    reached = list(backend.devices.iter_devices(Platform.FCM, 1, from_offsets([*offsets, 77, 5 * BLOCK_MEMBERS])))
    assert reached == registrations[: len(offsets)]
    assert list(backend.devices.iter_devices(Platform.APNS, 1, from_offsets(offsets))) == []
    assert members_with_device(backend.devices, 1) == sorted(SHARD_MEMBERS + offset for offset in [*offsets, 5])


def test_registration_expires(backend: Backend) -> None:
    now = backend.clock.now()
    backend.devices.write(
        [replace(registered(), registered_at=now - DEVICE_KEPT_FOR), registered(BEA, 0, OTHER_ADDRESSES[1])]
    )
    assert (devices_by_member(backend.devices), members_with_device(backend.devices)) == (
        {BEA: [registered(BEA, 0, OTHER_ADDRESSES[1])]},
        [],
    )
    assert backend.devices.read_current([registered().id]) == {}


def test_many_devices_are_written_and_read_at_once(backend: Backend) -> None:
    registrations = [registered(Member(n * 7), address=FirebaseToken(token=f"{n:040}")) for n in range(1_500)]
    backend.devices.write(registrations)
    assert members_with_device(backend.devices) == [device.member for device in registrations]
    assert (
        sum(
            len(devices_of_member)
            for devices_of_member in backend.devices.by_member([device.member for device in registrations]).values()
        )
        == 1_500
    )
    all_members = from_offsets(device.member for device in registrations)
    assert list(backend.devices.iter_devices(Platform.FCM, 0, all_members)) == registrations


EXAMPLES = count()
CHANGES = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 4), st.booleans())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(CHANGES, max_size=6), max_size=6))
@example(writes=[[(0, 2, 2, False), (2, 2, 1, False)], [(2, 2, 2, False)]])
def test_store_matches_table_of_highest_ranks(backend: Backend, writes: list[list[tuple]]) -> None:  # type: ignore[type-arg] # of CHANGES
    """Each example uses addresses of its own, because the store is not emptied between examples."""
    base = next(EXAMPLES)
    people = [Member(n * BLOCK_MEMBERS) for n in range(3)]
    addresses = [FirebaseToken(token=f"{base}_{n}".zfill(40)) for n in range(3)]
    ids = [registered(address=address).id for address in addresses]
    highest: dict[DeviceId, DeviceUpdate] = {}
    for batch in writes:
        changes = [
            _change(people[user_index], addresses[address_index], second, is_removed)
            for user_index, address_index, second, is_removed in batch
        ]
        backend.devices.write(changes)
        for change in changes:
            highest[change.id] = max(highest.get(change.id, change), change, key=lambda device: device.rank)
    assert {id: device.rank for id, device in backend.devices.read_current(ids).items()} == {
        id: change.rank for id, change in highest.items()
    }
    stored = [
        device
        for devices_of_member in backend.devices.by_member(people).values()
        for device in devices_of_member
        if device.id in ids
    ]
    assert sorted(stored, key=lambda device: device.id) == sorted(
        (change for change in highest.values() if isinstance(change, Device)), key=lambda device: device.id
    )


def _change(member: Member, address: Address, second: int, is_removed: bool) -> DeviceUpdate:
    device = registered(member, second, address)
    return removal_of(device) if is_removed else device
