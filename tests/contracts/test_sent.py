"""The record of what was sent: a window whose outcome is known is never sent again."""

from notifier.domain.audience import Tier
from notifier.domain.subject import BurstKey
from notifier.ports.push import Sending
from tests.contracts.backends import Backend

WINDOW = Sending(burst=BurstKey.parse("mention:nova#1"), tier=Tier.P1, shard=3)
OTHERS = [
    Sending(burst=BurstKey.parse("mention:nova#2"), tier=Tier.P1, shard=3),
    Sending(burst=BurstKey.parse("mention:nova#1"), tier=Tier.P0, shard=3),
    Sending(burst=BurstKey.parse("mention:nova#1"), tier=Tier.P1, shard=4),
]


def test_a_window_in_flight_at_a_crash_may_be_sent_again(backend: Backend) -> None:
    assert backend.sent.intend(WINDOW)
    assert backend.sent.intend(WINDOW)


def test_a_window_with_an_outcome_is_never_sent_again(backend: Backend) -> None:
    backend.sent.intend(WINDOW)
    backend.sent.outcome(WINDOW, 12)
    assert not backend.sent.intend(WINDOW)


def test_an_outcome_of_nobody_is_an_outcome(backend: Backend) -> None:
    backend.sent.intend(WINDOW)
    backend.sent.outcome(WINDOW, 0)
    assert not backend.sent.intend(WINDOW)


def test_an_outcome_speaks_for_its_window_alone(backend: Backend) -> None:
    backend.sent.intend(WINDOW)
    backend.sent.outcome(WINDOW, 12)
    assert [backend.sent.intend(other) for other in OTHERS] == [True, True, True]
