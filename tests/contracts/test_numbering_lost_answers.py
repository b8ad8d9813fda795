"""Numbers on Cassandra, when an answer is lost: what was asked may have had its effect, and nobody gets another's."""

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


def lost(decide: Callable[..., Any], *, effect: bool) -> Callable[..., Any]:
    """As it is when the network breaks before or after the node has done it."""

    def cut_off(*asked: Any) -> Sequence[None]:
        if effect:
            decide(*asked)
        raise StoreUnavailable("The answer was lost.")

    return cut_off


@pytest.mark.parametrize("effect", [False, True])
def test_a_lease_without_an_answer_is_nobody_s(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, effect: bool) -> None:
    directory = CassandraDirectory(cluster)
    before = directory.number([ADA])[ADA]
    with monkeypatch.context() as broken:
        broken.setattr(cluster, "decide", lost(cluster.decide, effect=effect))
        with pytest.raises(StoreUnavailable):
            directory.lease(10)
    assert directory.lease(10) == before + LEASED + (10 if effect else 0)


@pytest.mark.parametrize("effect", [False, True])
def test_who_was_perhaps_given_a_number_has_the_same_whoever_asks(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, effect: bool
) -> None:
    directory = CassandraDirectory(cluster)
    with monkeypatch.context() as broken:
        broken.setattr(cluster, "decide_together", lost(cluster.decide_together, effect=effect))
        with pytest.raises(StoreUnavailable):
            directory.number([ADA, BEA])
    given = CassandraDirectory(cluster).number([ADA, BEA])
    assert given == directory.number([BEA, ADA])
    assert (given[ADA] < LEASED) is effect
    assert directory.users(list(given.values())) == {member: user for user, member in given.items()}


def test_a_process_that_begins_anew_gives_none_of_the_last_one_s_numbers(cluster: Cluster) -> None:
    first = CassandraDirectory(cluster).number([ADA])[ADA]
    second = CassandraDirectory(cluster).number([BEA])[BEA]
    assert (first, second) == (Member(0), Member(LEASED))


def test_a_lease_that_is_used_up_is_followed_by_another(cluster: Cluster) -> None:
    directory, other = CassandraDirectory(cluster), CassandraDirectory(cluster)
    names = [UserId(f"person {n}") for n in range(LEASED)]
    directory.number(names[: LEASED - 1])
    other.number([ADA])
    assert directory.number([names[-1]])[names[-1]] == LEASED - 1
    assert directory.number([BEA])[BEA] == 2 * LEASED
