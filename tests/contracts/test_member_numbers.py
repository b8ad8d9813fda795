"""Member numbers of the directory are permanent, unique and dense."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.errors import NumberTaken
from notifier.domain.ids import Member, UserId
from notifier.ports.user_directory_and_account_flags import MIN_LEASED_NUMBERS, DirectoryEntry
from tests.contracts.memory_and_sqlite_backends import Backend

USERS = [UserId(f"person {n}") for n in range(3_000)]


def test_new_user_gets_a_number(backend: Backend) -> None:
    numbers = backend.directory.assign_numbers([UserId("ada"), UserId("bea")])
    assert set(numbers) == {"ada", "bea"}
    assert backend.directory.users(list(numbers.values())) == {member: user for user, member in numbers.items()}
    assert backend.directory.accounts(list(numbers)) == {
        user: DirectoryEntry(user=user, member=member) for user, member in numbers.items()
    }


def test_number_is_permanent(backend: Backend) -> None:
    first = backend.directory.assign_numbers([UserId("ada"), UserId("bea")])
    repeated = backend.directory.assign_numbers([UserId("bea"), UserId("cleo"), UserId("ada"), UserId("bea")])
    assert {user: repeated[user] for user in first} == first
    assert len(set(repeated.values())) == 3


def test_deleted_user_keeps_number_and_entry(backend: Backend) -> None:
    member = backend.directory.assign_numbers([UserId("ada")])[UserId("ada")]
    deleted = DirectoryEntry(user=UserId("ada"), member=member, deleted=True, verified=True)
    backend.directory.enrol([deleted])
    assert backend.directory.assign_numbers([UserId("ada")]) == {UserId("ada"): member}
    assert backend.directory.accounts([UserId("ada")]) == {UserId("ada"): deleted}


def test_empty_name_gets_no_number(backend: Backend) -> None:
    assert backend.directory.assign_numbers([]) == {}
    assert backend.directory.assign_numbers([UserId("")]) == {}


def test_unusual_names_are_distinct_users(backend: Backend) -> None:
    unusual = [UserId(name) for name in ("'", "\n", "u٧", "😀" * 64, "a" * 1_024, "A", "a")]
    assert len(set(backend.directory.assign_numbers(unusual).values())) == len(unusual)


def test_numbers_of_many_users_are_consecutive(backend: Backend) -> None:
    backend.directory.assign_numbers([UserId("ada")])
    numbers = sorted(backend.directory.assign_numbers(USERS).values())
    assert all(next_number - number == 1 for number, next_number in pairwise(numbers))
    assert numbers[0] <= MIN_LEASED_NUMBERS
    assert len(backend.directory.accounts(USERS)) == len(backend.directory.users(numbers)) == len(USERS)


def test_user_in_a_range_has_number_of_range(backend: Backend) -> None:
    backend.directory.enrol_range(IdRange(prefix="u", first=10, count=5, first_member=Member(1_000)))
    numbers = backend.directory.assign_numbers([UserId("u12"), UserId("u15")])
    assert numbers[UserId("u12")] == 1_002
    assert numbers[UserId("u15")] >= 1_005


def test_enrolled_numbers_are_not_assigned_again(backend: Backend) -> None:
    backend.directory.enrol([DirectoryEntry(user=UserId("nova"), member=Member(7))])
    assert backend.directory.assign_numbers([UserId("ada")])[UserId("ada")] > 7
    backend.directory.enrol_range(IdRange(prefix="u", first=0, count=10_000, first_member=Member(5_000)))
    assert backend.directory.lease(1) >= 15_000


def test_user_cannot_have_two_numbers(backend: Backend) -> None:
    ada = UserId("ada")
    member = backend.directory.assign_numbers([ada])[ada]
    second = backend.directory.lease(1)
    with pytest.raises(NumberTaken):
        backend.directory.enrol([DirectoryEntry(user=ada, member=second)])
    assert backend.directory.assign_numbers([ada]) == {ada: member}
    assert backend.directory.users([member]) == {member: ada}


def test_number_cannot_have_two_users(backend: Backend) -> None:
    ada, bea, cleo = UserId("ada"), UserId("bea"), UserId("cleo")
    member = backend.directory.assign_numbers([ada])[ada]
    with pytest.raises(NumberTaken):
        backend.directory.enrol([DirectoryEntry(user=bea, member=member)])
    leased = backend.directory.lease(1)
    with pytest.raises(NumberTaken):
        backend.directory.enrol([DirectoryEntry(user=bea, member=leased), DirectoryEntry(user=cleo, member=leased)])
    assert backend.directory.users([member, leased]) == {member: ada}
    assert backend.directory.accounts([bea, cleo]) == {}


def test_leased_number_can_be_enrolled(backend: Backend) -> None:
    first = backend.directory.lease(2)
    backend.directory.enrol([DirectoryEntry(user=UserId("bea"), member=Member(first + 1))])
    assert backend.directory.assign_numbers([UserId("bea")]) == {UserId("bea"): first + 1}


@pytest.mark.parametrize("count", [0, -5])
def test_lease_of_no_number_is_rejected(backend: Backend, count: int) -> None:
    with pytest.raises(ValueError, match="lease"):
        backend.directory.lease(count)
    first = backend.directory.lease(1)
    assert backend.directory.lease(1) == first + 1


@pytest.mark.parametrize(
    "overlapping",
    [
        IdRange(prefix="u", first=14, count=1, first_member=Member(5_000)),
        IdRange(prefix="u", first=0, count=11, first_member=Member(5_000)),
        IdRange(prefix="u", first=10, count=6, first_member=Member(1_000)),
        IdRange(prefix="v", first=0, count=1, first_member=Member(1_004)),
        IdRange(prefix="v", first=0, count=1_001, first_member=Member(0)),
    ],
    ids=str,
)
def test_overlapping_range_is_rejected_but_repeat_is_not(backend: Backend, overlapping: IdRange) -> None:
    ids = IdRange(prefix="u", first=10, count=5, first_member=Member(1_000))
    for _ in range(2):
        backend.directory.enrol_range(ids)
    with pytest.raises(NumberTaken):
        backend.directory.enrol_range(overlapping)
    assert backend.directory.assign_numbers([UserId("u14")]) == {UserId("u14"): Member(1_004)}
    backend.directory.enrol_range(IdRange(prefix="u", first=15, count=5, first_member=Member(2_000)))
    backend.directory.enrol_range(IdRange(prefix="v", first=0, count=5, first_member=Member(1_005)))
    assert backend.directory.users([Member(1_005), Member(2_000)]) == {Member(1_005): "v0", Member(2_000): "u15"}


def test_all_numbers_are_below_the_end(backend: Backend) -> None:
    assert backend.directory.next_number() == 0
    numbers = backend.directory.assign_numbers(USERS[:10]).values()
    backend.directory.enrol_range(IdRange(prefix="u", first=0, count=10_000, first_member=Member(5_000)))
    assert max(numbers) < backend.directory.next_number() == 15_000
    assert backend.directory.lease(3) + 3 == backend.directory.next_number()


def test_batches_leave_few_numbers_unused(backend: Backend) -> None:
    batches = [backend.directory.assign_numbers(USERS[n * 600 : n * 600 + 600]) for n in range(5)]
    numbers = {member for batch in batches for member in batch.values()}
    assert len(numbers) == len(USERS)
    assert max(numbers) - min(numbers) < len(USERS) + MIN_LEASED_NUMBERS


def test_leased_numbers_are_not_assigned(backend: Backend) -> None:
    first = backend.directory.lease(5_000)
    second = backend.directory.lease(1)
    assigned = backend.directory.assign_numbers(USERS[:10]).values()
    leased = {*range(first, first + 5_000), second}
    assert len(leased) == 5_001
    assert leased.isdisjoint(assigned)


def test_concurrent_numbering_gives_each_user_one_number(backend: Backend) -> None:
    batches = [USERS[n * 50 : n * 50 + 200] for n in range(8)]
    with ThreadPoolExecutor(len(batches)) as pool:
        results = list(pool.map(backend.directory.assign_numbers, batches))
    pairs = {(user, member) for result in results for user, member in result.items()}
    users = {user for batch in batches for user in batch}
    assert {user for user, _ in pairs} == users
    assert len(pairs) == len(users) == len({member for _, member in pairs})
    assert backend.directory.assign_numbers(list(users)) == dict(pairs)
