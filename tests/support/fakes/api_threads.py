"""Replacements for an API process's threads: calls run in the event loop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class InlineThreads:
    """Runs each call at once."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return call(*args, **kwargs)


@dataclass(slots=True)
class GatedThreads:
    """Delays each call until `open` is set."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[tuple[object, ...]] = field(default_factory=list)
    """Arguments of each call so far."""

    @property
    def begun(self) -> int:
        return len(self.calls)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.calls.append(args)
        await self.open.wait()
        return call(*args, **kwargs)
