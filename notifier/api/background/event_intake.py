"""Event intake: passes single events to the gateway in batches, and hides retracted content.

A batch needs one cache lookup and one log sync. That is a third of the work of single calls, and far fewer threads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from notifier.api.threads import share_of
from notifier.bounded_executor import Threads, TooManyWaiting
from notifier.codec import UpstreamEvent
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.errors import Full, NotifierError, Unavailable
from notifier.flow.intake.gateway import Gateway, IntakeReceipt

BATCHES_AT_ONCE = 2
"""Concurrent batches: the next one is prepared while one waits for the disk."""
MAX_BATCH_EVENTS = 200
"""Events per batch. The last one still waits less than a slow disk takes."""

IncomingEvent = UpstreamEvent | NotifierError
"""An event, or the error that rejects it."""
AppendEvents = Callable[[Sequence[IncomingEvent]], Awaitable[Sequence[IntakeReceipt]]]
WaitingEvent = tuple[IncomingEvent, "asyncio.Future[IntakeReceipt]"]


@dataclass(slots=True, kw_only=True)
class EventBatcher:
    """Collects events while earlier ones are appended. One instance per event loop.

    A lone event is appended at once.
    """

    append_all: AppendEvents
    waiting: list[WaitingEvent] = field(default_factory=list)
    running: "set[asyncio.Task[None]]" = field(default_factory=set)

    async def append(self, event: IncomingEvent) -> IntakeReceipt:
        """Append the event to the log. Raises the gateway's errors; then any event of its batch may not be accepted."""
        answer: asyncio.Future[IntakeReceipt] = asyncio.get_running_loop().create_future()
        self.waiting.append((event, answer))
        if len(self.running) < BATCHES_AT_ONCE:
            task = asyncio.create_task(self._run())
            self.running.add(task)
            task.add_done_callback(self.running.discard)
        return await answer

    async def _run(self) -> None:
        while self.waiting:
            batch, self.waiting = self.waiting[:MAX_BATCH_EVENTS], self.waiting[MAX_BATCH_EVENTS:]
            await self._append(batch)

    async def _append(self, batch: Sequence[WaitingEvent]) -> None:
        try:
            receipts = await self.append_all([event for event, _ in batch])
        except (Unavailable, Full) as error:
            # The queued events would fail the same way, batch by batch. Refuse them now, so that no event waits longer
            # than one batch takes.
            queued, self.waiting = self.waiting, []
            return _fail([*batch, *queued], error)
        except Exception as error:
            if len(batch) == 1:
                return _fail(batch, error)
            for single in batch:  # an event that makes the gateway fail must not fail the others
                await self._append([single])
            return None
        for (_, answer), receipt in zip(batch, receipts, strict=True):
            if not answer.done():  # the client has disconnected; its event stays accepted
                answer.set_result(receipt)
        return None


def _fail(batch: Sequence[WaitingEvent], error: Exception) -> None:
    for _, answer in batch:
        if not answer.done():
            answer.set_exception(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetractionHiding:
    """Hides retracted content, with limited concurrency."""

    hide_all: Callable[[Sequence[Retraction]], object]
    """Blocking function that hides the content of the retractions."""
    threads: Threads
    """A share of the process's threads."""

    async def hide(self, retraction: Retraction) -> None:
        """Hide the retracted content, or return without doing so if no thread is free in time."""
        with suppress(TooManyWaiting):  # the retractor reads the retraction from the log and hides the content later
            await self.threads.run(self.hide_all, [retraction])


@dataclass(slots=True, kw_only=True)
class EventIntake:
    """Passes all events from the routes to the gateway. One instance per event loop."""

    gateway: Gateway
    threads: Threads
    batcher: EventBatcher = field(init=False)
    hiding: RetractionHiding = field(init=False)

    def __post_init__(self) -> None:
        self.batcher = EventBatcher(append_all=self._append)
        self.hiding = RetractionHiding(hide_all=self.gateway.hide, threads=share_of(self.threads))

    async def accept(self, event: IncomingEvent) -> IntakeReceipt:
        """Accept a single event. Raises LogUnavailable and Full.

        It runs the two steps of `Gateway.accept` separately: hiding everything that an author has written takes about a
        second, and a mention in the same batch must not wait for that. A crash between the steps has the same effect as
        in `Gateway.accept`.
        """
        if isinstance(event, NotifierError):
            # In a batch it would share an outage of the log, and get a 503 that invites a retry.
            return self.gateway.refuse(event)
        receipt = await self.batcher.append(event)
        if isinstance(event, Retraction):
            await self.hiding.hide(event)
        return receipt

    async def accept_batch(self, events: Sequence[IncomingEvent]) -> Sequence[IntakeReceipt]:
        """Accept the events of one request. Raises LogUnavailable and Full."""
        return await self.threads.run(self.gateway.accept, events)

    async def _append(self, events: Sequence[IncomingEvent]) -> Sequence[IntakeReceipt]:
        return await self.threads.run(self.gateway.append, events)
