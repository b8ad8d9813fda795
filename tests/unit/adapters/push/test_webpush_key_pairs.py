"""Key pairs made ahead: one for each message, by whoever has the time for it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from threading import Event, enumerate, get_ident
from typing import Any

from notifier.adapters.push.webpush.vapid import Pairs

WITHIN = 20.0
"""Seconds, on a busy machine."""
FOR_EVER = 600.0


class Maker:
    """Knows by which thread each was made."""

    def __init__(self, stopped_at: int = 1_000) -> None:
        self.makers: list[int] = []
        self.stopped_at, self.full, self.numbers = stopped_at, Event(), count()

    def __call__(self) -> Any:
        self.makers.append(get_ident())
        if len(self.makers) >= self.stopped_at:
            self.full.set()
        return next(self.numbers), get_ident()


@contextmanager
def pairs(maker: Maker, ahead: int, rests_for: float) -> Iterator[Pairs]:
    with closing(Pairs(maker, ahead=ahead, rests_for=rests_for)) as made:
        yield made


def test_they_are_made_before_the_first_message_and_by_another_thread() -> None:
    maker = Maker(stopped_at=5)
    with pairs(maker, 5, FOR_EVER) as made:
        assert maker.full.wait(WITHIN)
        taken: list[Any] = [made() for _ in range(7)]
    mine = [by == get_ident() for _, by in taken]
    assert mine == [False] * 5 + [True] * 2


def test_no_two_messages_have_the_same() -> None:
    maker = Maker()
    with pairs(maker, 3, 0.0) as made:
        taken: list[Any] = [made() for _ in range(2_000)]
    assert len({number for number, _ in taken}) == 2_000


def test_they_are_made_anew_once_nobody_sends() -> None:
    maker = Maker(stopped_at=8)
    with pairs(maker, 4, 0.0) as made:
        for _ in range(4):
            made()
        assert maker.full.wait(WITHIN)


def test_who_sends_is_not_disturbed() -> None:
    maker = Maker(stopped_at=1)
    with pairs(maker, 1, FOR_EVER) as made:
        assert maker.full.wait(WITHIN)
        taken: list[Any] = [made() for _ in range(200)]
    assert {by for _, by in taken[1:]} == {get_ident()}
    assert len(maker.makers) == 200


def test_closed_it_leaves_no_thread() -> None:
    before = {*enumerate()}
    with pairs(Maker(), 4, FOR_EVER) as made:
        made()
    assert {*enumerate()} <= before
