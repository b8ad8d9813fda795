"""Gathering: single events that wait at the same time go through the gateway together.

One look into the cache and one sync of the log serve all of them: a third of the work, and no crowd of threads.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from notifier.api.threads import Threads
from notifier.domain.errors import BadEvent, Full, Unavailable
from notifier.flow.intake.gateway import Receipt

AT_ONCE = 2
"""While one group waits for the disk the next one is read."""
MOST = 200
"""In a group; the last of them still waits less than for a slow disk."""


class BatchGateway(Protocol):
    def __call__(self, body: bytes, *, batch: bool, settles: bool) -> Sequence[Receipt]:
        """Return one receipt per event, in order. Raises LogUnavailable or Full."""
        ...


Waiting = tuple[bytes, "asyncio.Future[Receipt]"]


@dataclass(slots=True, kw_only=True)
class Gathering:
    """For one loop. Who comes alone goes at once; nobody waits for company."""

    gateway: BatchGateway
    threads: Threads
    waiting: list[Waiting] = field(default_factory=list)
    going: "set[asyncio.Task[None]]" = field(default_factory=set)

    async def __call__(self, body: bytes) -> Receipt:
        """Raises what the gateway raises; then nothing of the group was accepted for certain."""
        _one_value(body)
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self.waiting.append((body, answer))
        if len(self.going) < AT_ONCE:
            task = asyncio.create_task(self._go())
            self.going.add(task)
            task.add_done_callback(self.going.discard)
        return await answer

    async def _go(self) -> None:
        while self.waiting:
            group, self.waiting = self.waiting[:MOST], self.waiting[MOST:]
            await self._accept(group)

    async def _accept(self, group: Sequence[Waiting]) -> None:
        try:
            body = b"[" + b",".join(body for body, _ in group) + b"]"
            receipts = await self.threads.run(self.gateway, body, batch=True, settles=False)
        except (Unavailable, Full) as error:
            # Those who wait behind them would fare no better, one group after the other: all learn it now, so that
            # nobody waits for longer than one group does, however many come.
            behind, self.waiting = self.waiting, []
            return _fail([*group, *behind], error)
        except Exception as error:
            if len(group) == 1:
                return _fail(group, error)
            for one in group:  # what is wrong with one event is nobody else's trouble
                await self._accept([one])
            return None
        for (_, answer), receipt in zip(group, receipts, strict=True):
            if not answer.done():  # who asked has gone; the event stays accepted
                answer.set_result(receipt)
        return None


def _fail(group: Sequence[Waiting], error: Exception) -> None:
    for _, answer in group:
        if not answer.done():
            answer.set_exception(error)


def _one_value(body: bytes) -> None:
    """A body that is more or less than one JSON value would shift the answers of the others."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadEvent(f"{error}.") from error
