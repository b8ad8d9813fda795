"""Leader leases: one owner at a time, replaced when the lease ends."""

from datetime import timedelta

from tests.contracts.memory_and_sqlite_backends import Backend
from tests.support.fakes.clock_and_nonces import START

TERM = timedelta(seconds=10)
TICK = timedelta(milliseconds=1)


def test_first_owner_gets_lease_and_may_renew(backend: Backend) -> None:
    assert backend.leases.acquire("monitor", "a", START, TERM)
    assert not backend.leases.acquire("monitor", "b", START, TERM)
    assert backend.leases.acquire("monitor", "a", START + TERM / 2, TERM)
    assert not backend.leases.acquire("monitor", "b", START + TERM, TERM)


def test_leader_without_renewal_is_replaced_at_lease_end(backend: Backend) -> None:
    backend.leases.acquire("monitor", "a", START, TERM)
    assert not backend.leases.acquire("monitor", "b", START + TERM - TICK, TERM)
    assert backend.leases.acquire("monitor", "b", START + TERM, TERM)
    assert not backend.leases.acquire("monitor", "a", START + TERM, TERM)


def test_leases_of_different_names_are_independent(backend: Backend) -> None:
    assert backend.leases.acquire("monitor", "a", START, TERM)
    assert backend.leases.acquire("dispatcher", "b", START, TERM)
