"""Leadership: one owner at a time, replaced when its term has passed."""

from datetime import timedelta

from tests.contracts.backends import Backend
from tests.support.fakes.clock import START

TERM = timedelta(seconds=10)
TICK = timedelta(milliseconds=1)


def test_the_first_to_ask_leads_and_may_renew(backend: Backend) -> None:
    assert backend.leases.hold("monitor", "a", START, TERM)
    assert not backend.leases.hold("monitor", "b", START, TERM)
    assert backend.leases.hold("monitor", "a", START + TERM / 2, TERM)
    assert not backend.leases.hold("monitor", "b", START + TERM, TERM)


def test_a_leader_that_does_not_renew_is_replaced_when_its_term_ends(backend: Backend) -> None:
    backend.leases.hold("monitor", "a", START, TERM)
    assert not backend.leases.hold("monitor", "b", START + TERM - TICK, TERM)
    assert backend.leases.hold("monitor", "b", START + TERM, TERM)
    assert not backend.leases.hold("monitor", "a", START + TERM, TERM)


def test_leases_of_different_names_know_nothing_of_each_other(backend: Backend) -> None:
    assert backend.leases.hold("monitor", "a", START, TERM)
    assert backend.leases.hold("dispatcher", "b", START, TERM)
