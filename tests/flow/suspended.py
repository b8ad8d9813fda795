"""A port whose calls give way to the test, so that anything can happen while a request waits for an answer."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


@coroutine
def suspend() -> Generator[None, None, None]:
    """Give way to whoever drives the coroutine."""
    yield


@dataclass
class Suspended:
    """Gives way before and behind each call: the question is under way, and then the answer."""

    port: object
    method: str = ""
    """The only one that gives way; all of them if it is empty."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        call = getattr(self.port, name)
        if self.method not in ("", name):
            return call  # type: ignore[no-any-return]  # of the port, whatever it is

        async def suspended(*given: object, **named: object) -> object:
            await suspend()
            answer = await call(*given, **named)
            await suspend()
            return answer

        return suspended


def run_to_end(request: Coroutine[Any, Any, T]) -> T:
    """Drive a request that gives way to its end."""
    while True:
        try:
            request.send(None)
        except StopIteration as stop:
            found: T = stop.value
            return found


def run_steps(request: Coroutine[Any, Any, T], steps: int) -> T | None:
    """Let a request go until it has given way so many times; return what it returned if it ended before."""
    for _ in range(steps):
        try:
            request.send(None)
        except StopIteration as stop:
            found: T = stop.value
            return found
    return None
