"""Inboxes are current after a change in every order of reader and writer calls."""

import pytest

from tests.support.interleavings.scenarios import SCENARIOS
from tests.support.interleavings.shared_request_scenarios import SHARED_REQUESTS
from tests.support.interleavings.thread_orders import Order, orders


@pytest.mark.parametrize(
    "name", [name if n % 4 == 0 else pytest.param(name, marks=pytest.mark.prove) for n, name in enumerate(SCENARIOS)]
)
def test_inbox_is_current_after_every_order_of_calls(name: str) -> None:
    assert [*SCENARIOS[name].failures()] == []


@pytest.mark.parametrize("name", SHARED_REQUESTS)
def test_inbox_is_current_while_requests_share_loads(name: str) -> None:
    assert [*SHARED_REQUESTS[name].failures()] == []


def test_every_order_is_run_once() -> None:
    """Two threads of two steps each have six orders; with one switch away from a thread that can go on, four."""
    assert len(_orders(most_switches=9)) == len(set(_orders(most_switches=9))) == 6
    assert _orders(most_switches=1) == ["aabb", "abba", "bbaa", "baab"]


def _orders(most_switches: int) -> list[str]:
    return [_walked(order) for order in orders(most_switches)]


def _walked(order: Order) -> str:
    steps_left, walked, current = {"a": 2, "b": 2}, "", None
    while steps_left:
        current = order.choose([*steps_left], current)
        walked += current
        steps_left[current] -= 1
        if not steps_left[current]:
            del steps_left[current]
    return walked
