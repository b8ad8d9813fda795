"""The dead letters: kept once, newest first."""

from datetime import timedelta

from notifier.ports.event_log import DeadLetter
from tests.contracts.backends import Backend
from tests.support.fakes.clock import START


def letter(id: str, minute: int = 0, cause: str = "Not a Mention") -> DeadLetter:
    at = START + timedelta(minutes=minute)
    return DeadLetter(id=id, stage="coordinator", cause=cause, body=b"\x00\xff", at=at)


def test_a_letter_comes_back_as_it_was_put(backend: Backend) -> None:
    backend.dead_letters.put(letter("mentions/0#7"))
    assert list(backend.dead_letters.list(10)) == [letter("mentions/0#7")]


def test_a_second_death_of_the_same_record_changes_nothing(backend: Backend) -> None:
    backend.dead_letters.put(letter("mentions/0#7"))
    backend.dead_letters.put(letter("mentions/0#7", minute=5, cause="another"))
    assert list(backend.dead_letters.list(10)) == [letter("mentions/0#7")]


def test_the_newest_come_first_and_no_more_than_asked_for(backend: Backend) -> None:
    for minute in (1, 3, 2):
        backend.dead_letters.put(letter(f"mentions/0#{minute}", minute))
    assert [found.id for found in backend.dead_letters.list(2)] == ["mentions/0#3", "mentions/0#2"]
