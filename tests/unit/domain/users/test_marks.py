"""What counts as seen."""

from notifier.domain.ids import BurstKey
from notifier.domain.users.visibility import Marks
from tests.support.examples import NOON, OF_NOVA, SECOND

FIRST, SECOND_BURST = BurstKey(OF_NOVA, 1), BurstKey(OF_NOVA, 2)


def test_to_one_who_never_looked_everything_is_new() -> None:
    assert Marks().is_unseen(FIRST, NOON)


def test_what_opened_up_to_seen_at_was_seen_and_what_opened_later_was_not() -> None:
    marks = Marks(seen_at=NOON)
    assert not marks.is_unseen(FIRST, NOON)
    assert marks.is_unseen(FIRST, NOON + SECOND)


def test_a_newer_burst_that_was_on_the_page_was_seen_and_its_neighbour_was_not() -> None:
    marks = Marks(seen_at=NOON, also_seen=frozenset({FIRST}))
    assert not marks.is_unseen(FIRST, NOON + SECOND)
    assert marks.is_unseen(SECOND_BURST, NOON + SECOND)
