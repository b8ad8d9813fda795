"""A client of Kafka that has wedged is thrown away, whatever it had before; one that only waits is kept."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import pytest

from notifier.adapters.kafka import consumer as reader
from notifier.adapters.kafka.client import Changes, Client, Fenced, Unreadable
from notifier.adapters.kafka.config import Access
from notifier.adapters.kafka.consumer import FENCED_FOR, JOINS_AGAIN_WITHIN, JOINS_WITHIN, STALLS_FOR, KafkaReader
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Logged, Record

RECORD = Logged(partition="mentions/0", offset=0, record=Record(stream="mentions", key="k", value=b""))


class Time:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Wedging:
    """A member of nothing until it is told; has ten records, and gives out those that it is told to."""

    def __init__(self, changes: Changes) -> None:
        self.changes, self.gives, self.closed = changes, [list[Logged]()], False
        self.fails: Exception | None = None
        self.silent = False
        self.end = 10

    def poll(self, wait: timedelta) -> Sequence[Logged]:
        if self.fails is not None:
            raise self.fails
        return self.gives.pop() if self.gives else []

    def commits(self) -> Mapping[int, int | None]:
        if self.silent:
            raise LogUnavailable
        return {0: 0}

    def commit(self, offsets: Mapping[int, int]) -> None:
        pass

    def bounds(self, numbers: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        return dict.fromkeys(numbers, (0, self.end))

    def life(self) -> str:
        return ""

    def unread(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(reader, "monotonic", time)
    monkeypatch.setattr(reader, "incarnation", lambda *_: "life")
    return time


class Clients:
    def __init__(self) -> None:
        self.made: list[Wedging] = []

    def membership(self, access: Access, stream: str, group: str, name: str, changes: Changes) -> Any:
        self.made.append(Wedging(changes))
        return self.made[-1]


def reading() -> tuple[KafkaReader, Clients]:
    clients = Clients()
    return KafkaReader(cast(Client, clients), Access(servers="nobody"), "mentions", "router", "one"), clients


def placed() -> tuple[KafkaReader, Clients]:
    """Of a member with the only partition."""
    one, clients = reading()
    poll(one)
    clients.made[0].changes.gained([0])
    return one, clients


def poll(one: KafkaReader) -> int:
    return len(one.poll(10, timedelta(0)))


def test_who_never_gets_a_place_is_made_anew(time: Time) -> None:
    one, clients = reading()
    poll(one)
    clients.made[0].changes.lost()
    time.now += JOINS_WITHIN - 1
    poll(one)
    assert len(clients.made) == 1
    time.now += 2
    poll(one)
    assert [each.closed for each in clients.made] == [True, False]


def test_who_lost_its_place_and_gets_none_again_is_made_anew(time: Time) -> None:
    one, clients = placed()
    time.now += 10 * JOINS_AGAIN_WITHIN
    poll(one)
    clients.made[0].changes.lost()
    time.now += JOINS_AGAIN_WITHIN - 1
    poll(one)
    assert len(clients.made) == 1
    time.now += 2
    poll(one)
    assert len(clients.made) == 2


def test_who_reads_nothing_of_what_is_there_is_made_anew(time: Time) -> None:
    one, clients = placed()
    for now, closed in ((0.0, False), (STALLS_FOR - 1, False), (2.0, True)):
        time.now += now
        poll(one)
        assert one.lag() == 10
        assert clients.made[0].closed == closed


def test_what_comes_behind_a_long_rest_is_no_stall(time: Time) -> None:
    one, clients = placed()
    clients.made[0].end = 0
    for _ in range(3):
        time.now += 2 * STALLS_FOR
        poll(one)
        assert one.lag() == 0
    clients.made[0].end = 10
    assert one.lag() == 10
    clients.made[0].gives = [[RECORD]]
    assert poll(one) == 1
    assert not clients.made[0].closed


@pytest.mark.parametrize("limit", [0, 10])
def test_who_is_busy_with_what_it_was_given_is_kept(time: Time, limit: int) -> None:
    """Also who asks for nothing more."""
    one, clients = placed()
    clients.made[0].gives = [[RECORD]]
    one.poll(limit, timedelta(0))
    for _ in range(3):
        time.now += 2 * STALLS_FOR
        if limit == 0:
            one.poll(limit, timedelta(0))
        assert one.lag() == 10
    assert not clients.made[0].closed


def test_whose_name_was_taken_tries_it_again_later_and_not_at_once(time: Time) -> None:
    one, clients = reading()
    poll(one)
    clients.made[0].fails = Fenced()
    for _ in range(2):
        with pytest.raises(LogUnavailable, match="under the name one"):
            poll(one)
    assert [each.closed for each in clients.made] == [True]
    time.now += FENCED_FOR
    poll(one)
    assert len(clients.made) == 2


def test_what_is_read_while_nobody_says_where_the_group_stands_is_bounded(time: Time) -> None:
    one, clients = placed()
    clients.made[0].silent = True
    clients.made[0].gives = [[RECORD] * 1_000] * 12
    for _ in range(11):
        with pytest.raises(LogUnavailable):
            poll(one)
    assert clients.made[0].closed


def test_who_was_handed_what_it_cannot_read_is_made_anew(time: Time) -> None:
    one, clients = reading()
    poll(one)
    clients.made[0].fails = Unreadable("of another time")
    with pytest.raises(LogUnavailable, match="of another time"):
        poll(one)
    assert clients.made[0].closed
    with suppress(LogUnavailable):
        poll(one)
    assert len(clients.made) == 2
