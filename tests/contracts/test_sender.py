"""The contract of the sender: what is handed over, to how many, in which order, and what a refusal leaves behind."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EIO, ENOSPC
from io import BytesIO

import pytest

from notifier.adapters.console import ConsoleSender
from notifier.domain.alert import Alert, alert
from notifier.domain.errors import Full, Unavailable
from notifier.domain.subject import Member
from notifier.ports.push import Sender
from notifier.testing.memory.phones import MemoryPhones
from tests.contracts.made import NOVA, burst

FIRST, SECOND = alert(burst(NOVA, 1)), alert(burst(NOVA, 2))
MEMBERS = [Member(7), Member(3), Member(200_000)]

Arrived = tuple[str, str, str, int, list[int]]
"""Text, burst, collapse id, to how many, and the first of them."""


class Line(BytesIO):
    """A file that may refuse to be written to."""

    errno: int | None = None

    def write(self, given: object) -> int:
        if self.errno is not None:
            raise OSError(self.errno, "for a test")
        return super().write(given)  # type: ignore[arg-type]  # the stub's Buffer isn't public before Python 3.12


@dataclass(frozen=True, slots=True, kw_only=True)
class Phones:
    sender: Sender
    arrived: Callable[[], list[Arrived]]
    refuse: Callable[[bool], None]


def in_memory() -> Phones:
    phones = MemoryPhones()

    def arrived() -> list[Arrived]:
        return [(a.text, str(a.burst), a.collapse_id, len(m), list(m[:3])) for a, m in phones.arrived]

    def refuse(away: bool) -> None:
        phones.away = away

    return Phones(sender=phones, arrived=arrived, refuse=refuse)


def on_the_console() -> Phones:
    out = Line()

    def arrived() -> list[Arrived]:
        lines = [json.loads(line) for line in out.getvalue().splitlines()]
        return [(w["alert"], w["burst"], w["collapse_id"], w["people"], w["first"]) for w in lines]

    def refuse(away: bool) -> None:
        out.errno = EIO if away else None

    return Phones(sender=ConsoleSender(out), arrived=arrived, refuse=refuse)


@pytest.fixture(params=[in_memory, on_the_console])
def phones(request: pytest.FixtureRequest) -> Phones:
    made: Callable[[], Phones] = request.param
    return made()


def as_it_arrives(given: Alert, *members: Member) -> Arrived:
    return given.text, str(given.burst), given.collapse_id, len(members), list(members[:3])


def test_an_alert_arrives_whole_for_everybody_in_the_order_given(phones: Phones) -> None:
    phones.sender.send(FIRST, MEMBERS)
    assert phones.arrived() == [as_it_arrives(FIRST, *MEMBERS)]


def test_a_window_of_thousands_arrives_as_one(phones: Phones) -> None:
    many = [Member(n) for n in range(26_000)]
    phones.sender.send(FIRST, many)
    assert phones.arrived() == [as_it_arrives(FIRST, *many)]


def test_alerts_arrive_in_the_order_of_sending(phones: Phones) -> None:
    phones.sender.send(SECOND, MEMBERS[:1])
    phones.sender.send(FIRST, MEMBERS[1:])
    assert phones.arrived() == [as_it_arrives(SECOND, *MEMBERS[:1]), as_it_arrives(FIRST, *MEMBERS[1:])]


def test_an_alert_sent_twice_arrives_twice_under_one_collapse_id(phones: Phones) -> None:
    phones.sender.send(FIRST, MEMBERS)
    phones.sender.send(FIRST, MEMBERS)
    assert phones.arrived() == [as_it_arrives(FIRST, *MEMBERS)] * 2


def test_for_nobody_nothing_is_handed_over(phones: Phones) -> None:
    phones.sender.send(FIRST, [])
    assert phones.arrived() == []


def test_the_caller_may_reuse_the_list(phones: Phones) -> None:
    people = list(MEMBERS)
    phones.sender.send(FIRST, people)
    people.clear()
    assert phones.arrived() == [as_it_arrives(FIRST, *MEMBERS)]


def test_what_is_refused_is_not_taken_later_either(phones: Phones) -> None:
    with refusing(phones), pytest.raises(Unavailable):
        phones.sender.send(FIRST, MEMBERS)
    phones.sender.send(SECOND, MEMBERS)
    assert phones.arrived() == [as_it_arrives(SECOND, *MEMBERS)]


@contextmanager
def refusing(phones: Phones) -> Iterator[None]:
    phones.refuse(True)
    yield
    phones.refuse(False)


def test_a_full_disk_is_told_as_such_by_the_console() -> None:
    out = Line()
    out.errno = ENOSPC
    with pytest.raises(Full):
        ConsoleSender(out).send(FIRST, MEMBERS)
