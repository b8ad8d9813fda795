"""Devices: each has one holder, by what ranks highest of all that was said of it, in whatever order it comes."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count, permutations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_MEMBERS, from_offsets, members
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import (
    KEPT,
    Address,
    ApnsEnvironment,
    AppleToken,
    Device,
    DeviceId,
    DeviceWord,
    FirebaseInstallation,
    FirebaseToken,
    Gone,
    Holding,
    WebSubscription,
    gone,
)
from notifier.ports.push import Devices
from tests.contracts.backends import Backend
from tests.support.fakes.clock import START

ADA, BEA = Member(7), Member(3 * SHARD_MEMBERS + 5)
PHONE = AppleToken(token="ab" * 32, topic="com.example.app")
OTHERS: list[Address] = [
    AppleToken(token="ab" * 32, topic="com.example.app", environment=ApnsEnvironment.SANDBOX),
    FirebaseToken(token="t" * 140),
    FirebaseInstallation(fid="c" * 22),
    WebSubscription(endpoint="https://push.example/1", key=b"\x04" + bytes(range(64)), secret=bytes(range(16))),
]


@pytest.fixture(autouse=True)
def nothing_was_deleted(request: pytest.FixtureRequest) -> None:
    """Before this test: a table that only holds deletions looks empty, and they would count."""
    if request.node.callspec.params["backend"] == "cassandra":
        request.getfixturevalue("cluster").execute("TRUNCATE devices")


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def registered(member: Member = ADA, second: float = 1, address: Address = PHONE, locale: str = "en") -> Device:
    return Device(member=member, address=address, locale=locale, time_zone="Asia/Tokyo", registered_at=at(second))


def ended(device: Device, second: float) -> Gone:
    return replace(gone(device), at=at(second))


def held(devices: Devices, *asked: Member) -> dict[Member, list[Device]]:
    return {member: list(some) for member, some in devices.of(asked or (ADA, BEA)).items()}


def having(devices: Devices, shard: int = 0) -> list[Member]:
    return members(devices.people(shard), shard)


def test_of_what_nothing_was_said_nothing_stands(backend: Backend) -> None:
    backend.devices.write([])
    assert (backend.devices.standing([DeviceId("0" * 32)]), held(backend.devices)) == ({}, {})
    assert (having(backend.devices), backend.devices.standing([]), backend.devices.of([])) == ([], {}, {})


def test_devices_of_every_kind_are_read_as_they_were_registered(backend: Backend) -> None:
    all_of_them = [registered(address=address, locale="pt-BR") for address in (PHONE, *OTHERS)]
    backend.devices.write([*all_of_them, registered(BEA, address=FirebaseToken(token="b" * 140))])
    assert held(backend.devices, ADA) == {ADA: sorted(all_of_them, key=lambda one: (one.platform, one.id))}
    for platform in Platform:
        found = list(backend.devices.reached(platform, 0, from_offsets([ADA])))
        assert found == sorted((one for one in all_of_them if one.platform is platform), key=lambda one: one.id)
    first = all_of_them[0]
    assert backend.devices.standing([first.id]) == {
        first.id: Holding(member=ADA, platform=Platform.APNS, at=first.registered_at)
    }
    assert (having(backend.devices), having(backend.devices, 1), having(backend.devices, 3)) == ([ADA], [], [BEA])


def test_registered_again_it_is_as_it_was_said_last_however_late_the_other_comes(backend: Backend) -> None:
    words = [registered(second=n, locale=locale) for n, locale in ((1, "en"), (2, "de"), (3, "fr"))]
    for n, order in enumerate(permutations(words)):
        member, address = Member(100 + n), FirebaseToken(token=f"{n}" * 40)
        for word in order:
            backend.devices.write([replace(word, member=member, address=address)])
        assert held(backend.devices, member) == {member: [replace(words[-1], member=member, address=address)]}


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_a_device_that_another_account_registers_leaves_the_first(backend: Backend, order: tuple[int, ...]) -> None:
    words = [registered(ADA, 1), registered(BEA, 2), registered(ADA, 1.5)]
    for place in order:
        backend.devices.write([words[place]])
    assert held(backend.devices) == {BEA: [words[1]]}
    assert (having(backend.devices), having(backend.devices, 3)) == ([], [BEA])
    assert [*backend.devices.reached(Platform.APNS, 0, from_offsets([ADA]))] == []
    assert [*backend.devices.reached(Platform.APNS, 3, from_offsets([BEA % SHARD_MEMBERS]))] == [words[1]]


def test_a_device_goes_to_and_fro_and_is_whose_it_was_last(backend: Backend) -> None:
    for n in range(6):
        backend.devices.write([registered((ADA, BEA)[n % 2], n)])
        assert held(backend.devices) == {(ADA, BEA)[n % 2]: [registered((ADA, BEA)[n % 2], n)]}


def test_of_two_who_register_it_at_the_same_moment_one_has_it_the_same_one_always(backend: Backend) -> None:
    for n, order in enumerate(permutations([ADA, BEA])):
        address = FirebaseToken(token=f"{n}" * 40)
        for member in order:
            backend.devices.write([registered(member, 1, address)])
        assert {member: len(some) for member, some in held(backend.devices).items()} == {BEA: n + 1}


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_a_late_registration_doesn_t_bring_back_what_is_gone(backend: Backend, order: tuple[int, ...]) -> None:
    """Unregistered by whose it was then, or dropped by its provider, who doesn't ask whose it is."""
    words: list[DeviceWord] = [registered(ADA, 1), registered(BEA, 2), ended(registered(BEA), 3)]
    for place in order:
        backend.devices.write([words[place]])
    assert held(backend.devices) == {}
    standing = backend.devices.standing([words[0].id])
    assert standing == {words[0].id: Holding(member=BEA, platform=Platform.APNS, at=at(3), gone=True)}
    backend.devices.write([registered(ADA, 2.5)])
    assert held(backend.devices) == {}
    backend.devices.write([registered(ADA, 4)])
    assert held(backend.devices) == {ADA: [registered(ADA, 4)]}


def test_of_the_same_moment_that_it_is_gone_counts(backend: Backend) -> None:
    for n, order in enumerate(permutations([0, 1])):
        device = registered(address=FirebaseToken(token=f"{n}" * 40))
        for place in order:
            backend.devices.write([(device, gone(device))[place]])
        assert held(backend.devices) == {}
        again = replace(device, registered_at=device.registered_at + timedelta(milliseconds=1))
        backend.devices.write([again])
        assert held(backend.devices) == {ADA: [again]}
        backend.devices.write([ended(device, 9)])


def test_of_one_batch_what_ranks_highest_stands(backend: Backend) -> None:
    other = registered(address=OTHERS[1])
    words: list[DeviceWord] = [registered(BEA, 2), registered(ADA, 3), registered(BEA, 1), registered(ADA, 2.5)]
    backend.devices.write([*words, other, ended(other, 1.5), replace(other, registered_at=at(2))])
    assert held(backend.devices) == {ADA: [registered(ADA, 3), replace(other, registered_at=at(2))]}


def test_a_drop_by_who_saw_it_with_another_takes_it_from_whose_it_is(backend: Backend) -> None:
    """An address that nobody is behind any more is nobody's, whoever has it by then."""
    backend.devices.write([registered(ADA, 1), registered(BEA, 2)])
    backend.devices.write([ended(registered(ADA), 5)])
    assert (held(backend.devices), having(backend.devices, 3)) == ({}, [])


def test_a_slice_reads_those_whom_it_names_in_order_and_nobody_else(backend: Backend) -> None:
    places = [0, 1, BLOCK_MEMBERS - 1, BLOCK_MEMBERS, 9 * BLOCK_MEMBERS + 3, SHARD_MEMBERS - 1]
    all_of_them = [
        registered(Member(SHARD_MEMBERS + place), address=FirebaseToken(token=f"{n:040}"))
        for n, place in enumerate([*places, 5, SHARD_MEMBERS, 2 * SHARD_MEMBERS])
    ]
    backend.devices.write(all_of_them)
    found = list(backend.devices.reached(Platform.FCM, 1, from_offsets([*places, 77, 5 * BLOCK_MEMBERS])))
    assert found == all_of_them[: len(places)]
    assert list(backend.devices.reached(Platform.APNS, 1, from_offsets(places))) == []
    assert having(backend.devices, 1) == sorted(SHARD_MEMBERS + place for place in [*places, 5])


def test_a_registration_ends_with_its_time(backend: Backend) -> None:
    now = backend.clock.now()
    backend.devices.write([replace(registered(), registered_at=now - KEPT), registered(BEA, 0, OTHERS[1])])
    assert (held(backend.devices), having(backend.devices)) == ({BEA: [registered(BEA, 0, OTHERS[1])]}, [])
    assert backend.devices.standing([registered().id]) == {}


def test_many_are_written_and_read_at_once(backend: Backend) -> None:
    each = [registered(Member(n * 7), address=FirebaseToken(token=f"{n:040}")) for n in range(1_500)]
    backend.devices.write(each)
    assert having(backend.devices) == [one.member for one in each]
    assert sum(len(some) for some in backend.devices.of([one.member for one in each]).values()) == 1_500
    everybody = from_offsets(one.member for one in each)
    assert list(backend.devices.reached(Platform.FCM, 0, everybody)) == each


EXAMPLES = count()
WORDS = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 4), st.booleans())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(WORDS, max_size=6), max_size=6))
@example(writes=[[(0, 2, 2, False), (2, 2, 1, False)], [(2, 2, 2, False)]])
def test_it_is_what_a_table_of_the_highest_is(backend: Backend, writes: list[list[tuple]]) -> None:  # type: ignore[type-arg] # of WORDS
    """With addresses of its own: the store is not emptied between examples."""
    base = next(EXAMPLES)
    people = [Member(n * BLOCK_MEMBERS) for n in range(3)]
    addresses = [FirebaseToken(token=f"{base}_{n}".zfill(40)) for n in range(3)]
    ids = [registered(address=address).id for address in addresses]
    highest: dict[DeviceId, DeviceWord] = {}
    for said in writes:
        words = [_word(people[who], addresses[what], second, over) for who, what, second, over in said]
        backend.devices.write(words)
        for word in words:
            highest[word.id] = max(highest.get(word.id, word), word, key=lambda one: one.rank)
    assert {id: one.rank for id, one in backend.devices.standing(ids).items()} == {
        id: word.rank for id, word in highest.items()
    }
    found = [one for some in backend.devices.of(people).values() for one in some if one.id in ids]
    assert sorted(found, key=lambda one: one.id) == sorted(
        (word for word in highest.values() if isinstance(word, Device)), key=lambda one: one.id
    )


def _word(member: Member, address: Address, second: int, over: bool) -> DeviceWord:
    device = registered(member, second, address)
    return gone(device) if over else device
