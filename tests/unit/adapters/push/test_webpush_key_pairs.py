"""Key pairs are generated ahead by a background thread, one for each message."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from threading import Event, enumerate, get_ident
from typing import Any

from notifier.adapters.push.webpush.vapid import MessageKeyPairs

DEADLINE = 20.0
"""Seconds; enough for a busy machine."""
NO_REFILL = 600.0


class Factory:
    """Key pair factory that records the thread of each call."""

    def __init__(self, stopped_at: int = 1_000) -> None:
        self.threads: list[int] = []
        self.stopped_at, self.full, self.numbers = stopped_at, Event(), count()

    def __call__(self) -> Any:
        self.threads.append(get_ident())
        if len(self.threads) >= self.stopped_at:
            self.full.set()
        return next(self.numbers), get_ident()


@contextmanager
def opened_pairs(factory: Factory, ahead: int, rests_for: float) -> Iterator[MessageKeyPairs]:
    with closing(MessageKeyPairs(factory, pregenerated_count=ahead, idle_seconds=rests_for)) as key_pairs:
        yield key_pairs


def test_pairs_are_made_ahead_by_another_thread() -> None:
    factory = Factory(stopped_at=5)
    with opened_pairs(factory, 5, NO_REFILL) as next_pair:
        assert factory.full.wait(DEADLINE)
        used: list[Any] = [next_pair() for _ in range(7)]
    made_here = [thread == get_ident() for _, thread in used]
    assert made_here == [False] * 5 + [True] * 2


def test_no_two_messages_share_a_key_pair() -> None:
    factory = Factory()
    with opened_pairs(factory, 3, 0.0) as next_pair:
        used: list[Any] = [next_pair() for _ in range(2_000)]
    assert len({number for number, _ in used}) == 2_000


def test_used_pairs_are_replaced_while_idle() -> None:
    factory = Factory(stopped_at=8)
    with opened_pairs(factory, 4, 0.0) as next_pair:
        for _ in range(4):
            next_pair()
        assert factory.full.wait(DEADLINE)


def test_pairs_are_made_inline_while_sending() -> None:
    factory = Factory(stopped_at=1)
    with opened_pairs(factory, 1, NO_REFILL) as next_pair:
        assert factory.full.wait(DEADLINE)
        used: list[Any] = [next_pair() for _ in range(200)]
    assert {thread for _, thread in used[1:]} == {get_ident()}
    assert len(factory.threads) == 200


def test_close_stops_the_thread() -> None:
    before = {*enumerate()}
    with opened_pairs(Factory(), 4, NO_REFILL) as next_pair:
        next_pair()
    assert {*enumerate()} <= before
