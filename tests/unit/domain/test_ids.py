"""Names of subjects and bursts."""

import pytest

from notifier.domain.errors import BadSubject
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from tests.support.domain_examples import OF_NOVA


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
