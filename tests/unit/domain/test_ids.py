"""Names of subjects and bursts, and requested collapse windows by kind."""

from datetime import timedelta

import pytest

from notifier.domain.errors import BadSubject
from notifier.domain.ids import POLICIES, BurstKey, Kind, Subject, UserId
from tests.support.domain_examples import MINUTE, OF_NOVA, SECOND

OFF = timedelta(0)
MENTION = POLICIES[Kind.MENTION]


@pytest.mark.parametrize("owner", ["nova", "a:b", "a#1", "a/b", "Ünï", " "])
def test_subject_is_parsed_as_written(owner: str) -> None:
    subject = Subject(Kind.MENTION, UserId(owner))
    assert Subject.parse(str(subject)) == subject
    assert BurstKey.parse(str(BurstKey(subject, 12))) == BurstKey(subject, 12)


@pytest.mark.parametrize("text", ["", "nova", "mention:", ":nova", "post:nova", "MENTION:nova"])
def test_invalid_subject_is_refused(text: str) -> None:
    with pytest.raises(BadSubject):
        Subject.parse(text)


@pytest.mark.parametrize("seq", ["", "-1", "+1", "1.0", "x", "٣", "1_0", "9" * 19, "9" * 5_000])
def test_invalid_burst_number_is_refused(seq: str) -> None:
    with pytest.raises(BadSubject):
        BurstKey.parse(f"mention:nova#{seq}")


def test_bursts_of_a_subject_are_ordered_by_number() -> None:
    assert BurstKey(OF_NOVA, 9) < BurstKey(OF_NOVA, 10)


def test_collapsing_can_be_disabled_up_to_the_limit_only() -> None:
    limit = MENTION.max_small_followers
    assert MENTION.collapse_for(limit, OFF) == OFF
    assert MENTION.collapse_for(limit + 1, OFF) == MENTION.collapse


def test_collapse_window_can_be_changed_at_every_size() -> None:
    assert MENTION.collapse_for(200_000_000, 5 * SECOND) == 5 * SECOND
    assert MENTION.collapse_for(10, None) == MINUTE


def test_subject_above_the_collapse_limit_has_a_budget() -> None:
    limit = MENTION.max_small_followers
    assert [MENTION.needs_budget(n) for n in (limit, limit + 1)] == [False, True]
    assert not POLICIES[Kind.SELF].needs_budget(200_000_000)
