"""Dead letters are kept once and listed newest first."""

from datetime import timedelta

from notifier.ports.event_log_and_dead_letters import DeadLetter
from tests.contracts.memory_and_sqlite_backends import Backend
from tests.support.fakes.clock_and_nonces import START


def letter(id: str, minute: int = 0, cause: str = "Not a Mention") -> DeadLetter:
    at = START + timedelta(minutes=minute)
    return DeadLetter(id=id, stage="coordinator", cause=cause, body=b"\x00\xff", at=at)


def test_dead_letter_is_returned_as_written(backend: Backend) -> None:
    backend.dead_letters.put(letter("mentions/0#7"))
    assert list(backend.dead_letters.list(10)) == [letter("mentions/0#7")]


def test_second_failure_of_record_changes_nothing(backend: Backend) -> None:
    backend.dead_letters.put(letter("mentions/0#7"))
    backend.dead_letters.put(letter("mentions/0#7", minute=5, cause="another"))
    assert list(backend.dead_letters.list(10)) == [letter("mentions/0#7")]


def test_dead_letters_are_listed_newest_first_up_to_limit(backend: Backend) -> None:
    for minute in (1, 3, 2):
        backend.dead_letters.put(letter(f"mentions/0#{minute}", minute))
    assert [letter_.id for letter_ in backend.dead_letters.list(2)] == ["mentions/0#3", "mentions/0#2"]
