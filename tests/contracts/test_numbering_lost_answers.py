"""Member numbers on Cassandra after a lost answer: the statement may or may not have been applied."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from notifier.adapters.cassandra import Cluster
from notifier.adapters.cassandra.stores.directory import CassandraDirectory
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.ports.directory import LEASED

ADA, BEA = UserId("ada"), UserId("bea")

pytestmark = pytest.mark.timeout(180)


def failing(decide: Callable[..., Any], *, effect: bool) -> Callable[..., Any]:
    """Simulate a network failure before or after the node applied the statement."""

    def fail(*args: Any) -> Sequence[None]:
        if effect:
            decide(*args)
        raise StoreUnavailable("The answer was lost.")

    return fail


@pytest.mark.parametrize("effect", [False, True])
def test_lease_with_lost_answer_is_never_reused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, effect: bool
) -> None:
    directory = CassandraDirectory(cluster)
    before = directory.number([ADA])[ADA]
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "decide", failing(cluster.decide, effect=effect))
        with pytest.raises(StoreUnavailable):
            directory.lease(10)
    assert directory.lease(10) == before + LEASED + (10 if effect else 0)


@pytest.mark.parametrize("effect", [False, True])
def test_number_assigned_before_lost_answer_is_kept(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, effect: bool
) -> None:
    directory = CassandraDirectory(cluster)
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "decide_together", failing(cluster.decide_together, effect=effect))
        with pytest.raises(StoreUnavailable):
            directory.number([ADA, BEA])
    numbers = CassandraDirectory(cluster).number([ADA, BEA])
    assert numbers == directory.number([BEA, ADA])
    assert (numbers[ADA] < LEASED) is effect
    assert directory.users(list(numbers.values())) == {member: user for user, member in numbers.items()}


def test_new_process_uses_no_numbers_of_previous_lease(cluster: Cluster) -> None:
    first = CassandraDirectory(cluster).number([ADA])[ADA]
    second = CassandraDirectory(cluster).number([BEA])[BEA]
    assert (first, second) == (Member(0), Member(LEASED))


def test_exhausted_lease_is_followed_by_another(cluster: Cluster) -> None:
    directory, other_directory = CassandraDirectory(cluster), CassandraDirectory(cluster)
    users = [UserId(f"person {n}") for n in range(LEASED)]
    directory.number(users[: LEASED - 1])
    other_directory.number([ADA])
    assert directory.number([users[-1]])[users[-1]] == LEASED - 1
    assert directory.number([BEA])[BEA] == 2 * LEASED
