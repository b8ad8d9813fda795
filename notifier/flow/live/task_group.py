"""A shift: the tasks that run while somebody is there; the first who comes begins it, and none outlives its end."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

Work = Coroutine[Any, Any, None]


@dataclass(slots=True, kw_only=True)
class Shift:
    """For one loop."""

    begin: Callable[[], Work]
    """Starts what goes on, by `go`; whoever comes waits for its end."""
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    begun: "asyncio.Task[None] | None" = None

    async def attend(self) -> None:
        """Returns once it has begun; it goes on though who began it has gone, and after a failure it is begun anew."""
        if self.begun is None or _failed(self.begun):
            self.begun = asyncio.create_task(self.begin())
        await asyncio.shield(self.begun)

    def go(self, work: Work) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def on(self) -> bool:
        """It has begun, and not only begins."""
        return self.begun is not None and self.begun.done() and not _failed(self.begun)

    def end(self) -> None:
        """At once, for whoever asks: a task takes no other step, and who comes next begins another shift."""
        self.begun = None
        for task in self.tasks:
            task.cancel()


def _failed(begun: "asyncio.Task[None]") -> bool:
    return begun.done() and (begun.cancelled() or begun.exception() is not None)
