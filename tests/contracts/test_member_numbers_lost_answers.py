"""Member numbers on Cassandra after a lost answer to a conditional statement."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from notifier.adapters.cassandra import Cluster
from notifier.adapters.cassandra.stores.user_directory_and_account_flags import CassandraDirectory
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.ports.user_directory_and_account_flags import MIN_LEASED_NUMBERS

ADA, BEA = UserId("ada"), UserId("bea")

pytestmark = pytest.mark.timeout(180)


def failing(decide: Callable[..., Any], *, takes_effect: bool) -> Callable[..., Any]:
    """Simulate a network failure before or after the node applied the statement."""

    def fail(*args: Any) -> Sequence[None]:
        if takes_effect:
            decide(*args)
        raise StoreUnavailable("The answer was lost.")

    return fail


@pytest.mark.parametrize("takes_effect", [False, True])
def test_lease_with_lost_answer_is_never_reused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, takes_effect: bool
) -> None:
    directory = CassandraDirectory(cluster)
    before = directory.assign_numbers([ADA])[ADA]
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "compare_and_set", failing(cluster.compare_and_set, takes_effect=takes_effect))
        with pytest.raises(StoreUnavailable):
            directory.lease(10)
    assert directory.lease(10) == before + MIN_LEASED_NUMBERS + (10 if takes_effect else 0)


@pytest.mark.parametrize("takes_effect", [False, True])
def test_number_assigned_before_lost_answer_is_kept(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, takes_effect: bool
) -> None:
    directory = CassandraDirectory(cluster)
    with monkeypatch.context() as patch:
        patch.setattr(
            cluster, "compare_and_set_batches", failing(cluster.compare_and_set_batches, takes_effect=takes_effect)
        )
        with pytest.raises(StoreUnavailable):
            directory.assign_numbers([ADA, BEA])
    numbers = CassandraDirectory(cluster).assign_numbers([ADA, BEA])
    assert numbers == directory.assign_numbers([BEA, ADA])
    assert (numbers[ADA] < MIN_LEASED_NUMBERS) is takes_effect
    assert directory.users(list(numbers.values())) == {member: user for user, member in numbers.items()}


def test_new_process_uses_no_numbers_of_previous_lease(cluster: Cluster) -> None:
    first = CassandraDirectory(cluster).assign_numbers([ADA])[ADA]
    second = CassandraDirectory(cluster).assign_numbers([BEA])[BEA]
    assert (first, second) == (Member(0), Member(MIN_LEASED_NUMBERS))


def test_exhausted_lease_is_followed_by_another(cluster: Cluster) -> None:
    directory, other_directory = CassandraDirectory(cluster), CassandraDirectory(cluster)
    users = [UserId(f"person {n}") for n in range(MIN_LEASED_NUMBERS)]
    directory.assign_numbers(users[: MIN_LEASED_NUMBERS - 1])
    other_directory.assign_numbers([ADA])
    assert directory.assign_numbers([users[-1]])[users[-1]] == MIN_LEASED_NUMBERS - 1
    assert directory.assign_numbers([BEA])[BEA] == 2 * MIN_LEASED_NUMBERS
