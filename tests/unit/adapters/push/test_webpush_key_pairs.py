"""Key pairs are generated ahead by a background thread, one for each message."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from threading import enumerate, get_ident
from time import monotonic, sleep
from typing import Any

from notifier.adapters.push.webpush.encrypted_message import MessageKeyPairs

DEADLINE = 20.0
"""Seconds; enough for a busy machine."""
NO_REFILL = 600.0
"""Idle seconds before a refill; more than a test takes."""


class Factory:
    """Key pair factory that records the thread of each call."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.numbers = count()

    def __call__(self) -> Any:
        self.threads.append(get_ident())
        return next(self.numbers), get_ident()


@contextmanager
def opened_pairs(factory: Factory, ahead: int, idle_seconds: float) -> Iterator[MessageKeyPairs]:
    with closing(MessageKeyPairs(factory, pregenerated_count=ahead, idle_seconds=idle_seconds)) as key_pairs:
        yield key_pairs


def wait_for_pairs(key_pairs: MessageKeyPairs, count: int) -> None:
    """Wait until the background thread has stored this number of pairs."""
    deadline = monotonic() + DEADLINE
    while len(key_pairs._pairs) < count:
        assert monotonic() < deadline
        sleep(0.001)


def test_pairs_are_made_ahead_by_another_thread() -> None:
    with opened_pairs(Factory(), 5, NO_REFILL) as next_pair:
        wait_for_pairs(next_pair, 5)
        used: list[Any] = [next_pair() for _ in range(7)]
    made_here = [thread == get_ident() for _, thread in used]
    assert made_here == [False] * 5 + [True] * 2


def test_no_two_messages_share_a_key_pair() -> None:
    factory = Factory()
    with opened_pairs(factory, 3, 0.0) as next_pair:
        used: list[Any] = [next_pair() for _ in range(2_000)]
    assert len({number for number, _ in used}) == 2_000


def test_used_pairs_are_replaced_while_idle() -> None:
    with opened_pairs(Factory(), 4, 0.0) as next_pair:
        wait_for_pairs(next_pair, 4)
        for _ in range(4):
            next_pair()
        wait_for_pairs(next_pair, 4)


def test_pairs_are_made_inline_while_sending() -> None:
    factory = Factory()
    with opened_pairs(factory, 1, NO_REFILL) as next_pair:
        wait_for_pairs(next_pair, 1)
        used: list[Any] = [next_pair() for _ in range(200)]
    assert {thread for _, thread in used[1:]} == {get_ident()}
    assert len(factory.threads) == 200


def test_close_stops_the_thread() -> None:
    before = {*enumerate()}
    with opened_pairs(Factory(), 4, NO_REFILL) as next_pair:
        next_pair()
    assert {*enumerate()} <= before
