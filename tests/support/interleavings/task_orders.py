"""Runs event loop tasks and a writer in many orders of their calls."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from greenlet import getcurrent, greenlet

from tests.support.interleavings.thread_orders import Order, Work
from tests.support.simulator.script import FailureMode, Part

Opening = Callable[[], Coroutine[Any, Any, object]]
WRITER = "writer"
MAX_TURNS = 12
"""Turns of the event loop until every task waits at a gate or for another task."""


class FrozenLoop(asyncio.SelectorEventLoop):
    """Event loop whose time stands still: on a busy machine a time limit would otherwise change the order of steps."""

    def time(self) -> float:
        return 0.0


class Tasks:
    """Tasks that stop behind every asynchronous port call, and a writer that stops before every call.

    It is a gate of the simulator's proxies. The event loop runs in the greenlet that created this object.
    """

    def __init__(self) -> None:
        self.steps: list[str] = []
        """Steps in order."""
        self._hub = getcurrent()
        self._names: dict[asyncio.Task[Any], str] = {}
        self._gates: dict[str, asyncio.Future[None]] = {}
        """Tasks that wait behind a call, by name."""
        self._is_open = True
        """Whether calls stop nowhere, as before and after the run."""

    async def run(self, openings: Mapping[str, Opening], write: Work, events: Mapping[str, Work], order: Order) -> None:
        """Run all openings, the writer and the events to their ends, in this order. An event is a single step."""
        self._is_open = False
        writer, tasks, not_begun, pending = greenlet(write), list[asyncio.Task[Any]](), dict(openings), dict(events)
        current: str | None = None
        while options := [*self._gates, *not_begun, *([] if writer.dead else [WRITER]), *pending]:
            current = order.choose(options, current)
            if current == WRITER:
                writer.switch()
                if writer.dead:
                    self.steps.append("writer ends")
            elif current in pending:
                self.steps.append(current)
                pending.pop(current)()
            elif current in not_begun:
                self.steps.append(f"{current} begins")
                tasks.append(asyncio.ensure_future(not_begun.pop(current)()))
                self._names[tasks[-1]] = current
            else:
                self._gates.pop(current).set_result(None)
            earlier_gates = {*self._gates}
            for _ in range(MAX_TURNS):
                await asyncio.sleep(0)
            # A task that waits for another one goes on in that one: this is no switch.
            current = next((gate for gate in self._gates if gate not in earlier_gates), current)
        await asyncio.gather(*tasks)
        self._is_open = True

    def stop(self, label: str, part: Part) -> FailureMode | None:
        if getcurrent() is not self._hub:
            self._hub.switch()
            self.steps.append(f"writer: {label}")
        return None

    def passed(self, label: str) -> None:
        pass

    async def suspend(self, label: str) -> None:
        if self._is_open or getcurrent() is not self._hub:
            return
        task = asyncio.current_task()
        assert task is not None
        name = self._names.setdefault(task, f"task {len(self._names)}")
        self.steps.append(f"{name}: {label}")
        self._gates[name] = asyncio.get_running_loop().create_future()
        await self._gates[name]
