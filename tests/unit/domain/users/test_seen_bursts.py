"""Marks: which bursts count as seen."""

from notifier.domain.ids import BurstKey
from notifier.domain.users.visibility import Marks
from tests.support.domain_examples import NOON, OF_NOVA, SECOND

FIRST, SECOND_BURST = BurstKey(OF_NOVA, 1), BurstKey(OF_NOVA, 2)


def test_everything_is_unseen_before_the_first_visit() -> None:
    assert Marks().is_unseen(FIRST, NOON)


def test_bursts_opened_until_seen_at_are_seen() -> None:
    marks = Marks(seen_at=NOON)
    assert not marks.is_unseen(FIRST, NOON)
    assert marks.is_unseen(FIRST, NOON + SECOND)


def test_newer_burst_on_the_page_is_seen_but_not_its_neighbor() -> None:
    marks = Marks(seen_at=NOON, also_seen=frozenset({FIRST}))
    assert not marks.is_unseen(FIRST, NOON + SECOND)
    assert marks.is_unseen(SECOND_BURST, NOON + SECOND)
