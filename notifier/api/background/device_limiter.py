"""Phones: what people ask of their own devices is done in a few of the edge's threads, and no mention waits for it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.flow.devices.registry import PhoneBook

T = TypeVar("T")

AT_ONCE = 8
"""Of the edge's threads; the others are for the log, which mustn't wait for a store that is slow."""
WITHIN = 2.0
"""Seconds that one waits for a turn; an app asks again."""


class InThread(Protocol):
    def __call__(self, ask: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass(slots=True, kw_only=True)
class Phones:
    """For one loop."""

    book: PhoneBook
    in_thread: InThread
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    within: float = WITHIN

    async def __call__(self, user: UserId, ask: Callable[[PhoneBook, Member], T], *, newcomer: bool = False) -> T:
        """Whatever is asked of the book, as the person. Raises StoreUnavailable, and what the book raises. It goes on
        to its end even when the one who asked has gone."""
        try:
            async with asyncio.timeout(self.within):
                await self.turns.acquire()
        except TimeoutError:
            raise StoreUnavailable(f"{AT_ONCE} others wait for their devices.") from None
        try:
            return await self.in_thread(lambda: ask(self.book, self.book.member(user, newcomer=newcomer)))
        finally:
            self.turns.release()
