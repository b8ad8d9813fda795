"""A port whose calls yield to the test, so that changes happen during requests."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


@coroutine
def suspend() -> Generator[None, None, None]:
    """Yield to the code that drives the coroutine."""
    yield


@dataclass
class Suspended:
    """Yields before and after each call: while the request is on its way, and then the response."""

    port: object
    method: str = ""
    """The only method that yields; all of them if empty."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        call = getattr(self.port, name)
        if self.method not in ("", name):
            return call  # type: ignore[no-any-return]  # the type of the port's attribute is unknown

        async def suspended(*args: object, **kwargs: object) -> object:
            await suspend()
            result = await call(*args, **kwargs)
            await suspend()
            return result

        return suspended


def run_to_end(request: Coroutine[Any, Any, T]) -> T:
    """Drive a suspended request to its end."""
    while True:
        try:
            request.send(None)
        except StopIteration as stop:
            result: T = stop.value
            return result


def run_steps(request: Coroutine[Any, Any, T], steps: int) -> T | None:
    """Drive a request for a number of suspensions; return its result if it ended before, else None."""
    for _ in range(steps):
        try:
            request.send(None)
        except StopIteration as stop:
            result: T = stop.value
            return result
    return None
