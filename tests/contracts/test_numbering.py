"""The numbers of the directory: everybody has one, for ever, and nobody another's."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from notifier.domain.audience.id_ranges import IdRange
from notifier.domain.errors import NumberTaken
from notifier.domain.ids import Member, UserId
from notifier.ports.directory import LEASED, DirectoryEntry
from tests.contracts.backends import Backend

CROWD = [UserId(f"person {n}") for n in range(3_000)]


def test_who_has_none_is_given_one_and_is_found_by_it(backend: Backend) -> None:
    given = backend.directory.number([UserId("ada"), UserId("bea")])
    assert set(given) == {"ada", "bea"}
    assert backend.directory.users(list(given.values())) == {member: user for user, member in given.items()}
    assert backend.directory.accounts(list(given)) == {
        user: DirectoryEntry(user=user, member=member) for user, member in given.items()
    }


def test_a_number_is_for_ever(backend: Backend) -> None:
    first = backend.directory.number([UserId("ada"), UserId("bea")])
    again = backend.directory.number([UserId("bea"), UserId("cleo"), UserId("ada"), UserId("bea")])
    assert {user: again[user] for user in first} == first
    assert len(set(again.values())) == 3


def test_who_was_deleted_keeps_the_number_and_what_is_known(backend: Backend) -> None:
    member = backend.directory.number([UserId("ada")])[UserId("ada")]
    gone = DirectoryEntry(user=UserId("ada"), member=member, deleted=True, verified=True)
    backend.directory.enrol([gone])
    assert backend.directory.number([UserId("ada")]) == {UserId("ada"): member}
    assert backend.directory.accounts([UserId("ada")]) == {UserId("ada"): gone}


def test_the_empty_name_is_nobody_s(backend: Backend) -> None:
    assert backend.directory.number([]) == {}
    assert backend.directory.number([UserId("")]) == {}


def test_strange_names_are_names(backend: Backend) -> None:
    strange = [UserId(name) for name in ("'", "\n", "u٧", "😀" * 64, "a" * 1_024, "A", "a")]
    assert len(set(backend.directory.number(strange).values())) == len(strange)


def test_a_crowd_s_numbers_are_as_dense_as_can_be(backend: Backend) -> None:
    backend.directory.number([UserId("ada")])
    given = sorted(backend.directory.number(CROWD).values())
    assert all(b - a == 1 for a, b in pairwise(given))
    assert given[0] <= LEASED
    assert len(backend.directory.accounts(CROWD)) == len(backend.directory.users(given)) == len(CROWD)


def test_who_is_in_a_range_has_its_number(backend: Backend) -> None:
    backend.directory.enrol_range(IdRange(prefix="u", first=10, count=5, member=Member(1_000)))
    given = backend.directory.number([UserId("u12"), UserId("u15")])
    assert given[UserId("u12")] == 1_002
    assert given[UserId("u15")] >= 1_005


def test_nobody_is_given_what_was_enrolled(backend: Backend) -> None:
    backend.directory.enrol([DirectoryEntry(user=UserId("nova"), member=Member(7))])
    assert backend.directory.number([UserId("ada")])[UserId("ada")] > 7
    backend.directory.enrol_range(IdRange(prefix="u", first=0, count=10_000, member=Member(5_000)))
    assert backend.directory.lease(1) >= 15_000


def test_nobody_has_two_numbers(backend: Backend) -> None:
    ada = UserId("ada")
    member = backend.directory.number([ada])[ada]
    other = backend.directory.lease(1)
    with pytest.raises(NumberTaken):
        backend.directory.enrol([DirectoryEntry(user=ada, member=other)])
    assert backend.directory.number([ada]) == {ada: member}
    assert backend.directory.users([member]) == {member: ada}


def test_nobody_has_another_s_number(backend: Backend) -> None:
    ada, bea, cleo = UserId("ada"), UserId("bea"), UserId("cleo")
    member = backend.directory.number([ada])[ada]
    with pytest.raises(NumberTaken):
        backend.directory.enrol([DirectoryEntry(user=bea, member=member)])
    other = backend.directory.lease(1)
    with pytest.raises(NumberTaken):
        backend.directory.enrol([DirectoryEntry(user=bea, member=other), DirectoryEntry(user=cleo, member=other)])
    assert backend.directory.users([member, other]) == {member: ada}
    assert backend.directory.accounts([bea, cleo]) == {}


def test_what_is_leased_can_be_given_to_somebody(backend: Backend) -> None:
    first = backend.directory.lease(2)
    backend.directory.enrol([DirectoryEntry(user=UserId("bea"), member=Member(first + 1))])
    assert backend.directory.number([UserId("bea")]) == {UserId("bea"): first + 1}


@pytest.mark.parametrize("count", [0, -5])
def test_no_number_is_no_lease(backend: Backend, count: int) -> None:
    with pytest.raises(ValueError, match="leased"):
        backend.directory.lease(count)
    first = backend.directory.lease(1)
    assert backend.directory.lease(1) == first + 1


@pytest.mark.parametrize(
    "other",
    [
        IdRange(prefix="u", first=14, count=1, member=Member(5_000)),
        IdRange(prefix="u", first=0, count=11, member=Member(5_000)),
        IdRange(prefix="u", first=10, count=6, member=Member(1_000)),
        IdRange(prefix="v", first=0, count=1, member=Member(1_004)),
        IdRange(prefix="v", first=0, count=1_001, member=Member(0)),
    ],
    ids=str,
)
def test_a_range_that_overlaps_with_another_is_refused_and_the_same_is_not(backend: Backend, other: IdRange) -> None:
    ids = IdRange(prefix="u", first=10, count=5, member=Member(1_000))
    for _ in range(2):
        backend.directory.enrol_range(ids)
    with pytest.raises(NumberTaken):
        backend.directory.enrol_range(other)
    assert backend.directory.number([UserId("u14")]) == {UserId("u14"): Member(1_004)}
    backend.directory.enrol_range(IdRange(prefix="u", first=15, count=5, member=Member(2_000)))
    backend.directory.enrol_range(IdRange(prefix="v", first=0, count=5, member=Member(1_005)))
    assert backend.directory.users([Member(1_005), Member(2_000)]) == {Member(1_005): "v0", Member(2_000): "u15"}


def test_all_numbers_are_below_the_end(backend: Backend) -> None:
    assert backend.directory.end() == 0
    given = backend.directory.number(CROWD[:10]).values()
    backend.directory.enrol_range(IdRange(prefix="u", first=0, count=10_000, member=Member(5_000)))
    assert max(given) < backend.directory.end() == 15_000
    assert backend.directory.lease(3) + 3 == backend.directory.end()


def test_few_numbers_are_left_out_when_many_come_in_turns(backend: Backend) -> None:
    given = [backend.directory.number(CROWD[n * 600 : n * 600 + 600]) for n in range(5)]
    numbers = {member for some in given for member in some.values()}
    assert len(numbers) == len(CROWD)
    assert max(numbers) - min(numbers) < len(CROWD) + LEASED


def test_what_is_leased_is_nobody_else_s(backend: Backend) -> None:
    first = backend.directory.lease(5_000)
    second = backend.directory.lease(1)
    given = backend.directory.number(CROWD[:10]).values()
    mine = {*range(first, first + 5_000), second}
    assert len(mine) == 5_001
    assert mine.isdisjoint(given)


def test_of_many_who_number_at_once_all_say_the_same(backend: Backend) -> None:
    shares = [CROWD[n * 50 : n * 50 + 200] for n in range(8)]
    with ThreadPoolExecutor(len(shares)) as pool:
        answers = list(pool.map(backend.directory.number, shares))
    told = {(user, member) for answer in answers for user, member in answer.items()}
    everybody = {user for share in shares for user in share}
    assert {user for user, _ in told} == everybody
    assert len(told) == len(everybody) == len({member for _, member in told})
    assert backend.directory.number(list(everybody)) == dict(told)
