"""Event intake: passes events to the gateway, single ones in shared batches.

A batch needs one look-up in the cache and one sync of the log. Passing its events one by one would take three times the
work, and far more threads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from notifier.api.request_threads import limited_threads
from notifier.codec import UpstreamEvent
from notifier.concurrency_and_time_limits import Threads, TooManyWaiting
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.errors import DiskFull, NotifierError, Unavailable
from notifier.flow.intake.gateway import Gateway, IntakeReceipt

MAX_CONCURRENT_BATCHES = 2
"""Maximum concurrent batches: one is prepared while the other waits for the disk."""
MAX_BATCH_EVENTS = 200
"""Maximum events per batch. Preparing so many takes less time than one sync of a slow disk."""

IncomingEvent = UpstreamEvent | NotifierError
"""An event, or the error that rejects it."""
AppendEvents = Callable[[Sequence[IncomingEvent]], Awaitable[Sequence[IntakeReceipt]]]
"""Appends events to the log, and returns one receipt per event, in order."""
WaitingEvent = tuple[IncomingEvent, "asyncio.Future[IntakeReceipt]"]
"""An event, and the future of its receipt."""


@dataclass(slots=True, kw_only=True)
class EventBatcher:
    """Appends events to the log in batches. One instance per event loop."""

    append_all: AppendEvents
    waiting: list[WaitingEvent] = field(default_factory=list)
    batch_tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    """Tasks that append batches, one batch after another, until no event waits."""

    async def append(self, event: IncomingEvent) -> IntakeReceipt:
        """Append the event to the log. Raises the gateway's errors.

        After an error the event may or may not be in the log.
        """
        receipt: asyncio.Future[IntakeReceipt] = asyncio.get_running_loop().create_future()
        self.waiting.append((event, receipt))
        if len(self.batch_tasks) < MAX_CONCURRENT_BATCHES:
            task = asyncio.create_task(self._run())
            self.batch_tasks.add(task)
            task.add_done_callback(self.batch_tasks.discard)
        return await receipt

    async def _run(self) -> None:
        while self.waiting:
            batch, self.waiting = self.waiting[:MAX_BATCH_EVENTS], self.waiting[MAX_BATCH_EVENTS:]
            await self._append(batch)

    async def _append(self, batch: Sequence[WaitingEvent]) -> None:
        try:
            receipts = await self.append_all([event for event, _ in batch])
        except (Unavailable, DiskFull) as error:
            # The waiting events would fail in the same way, batch by batch. Fail them now, so that no client waits for
            # a second batch.
            waiting, self.waiting = self.waiting, []
            return _fail([*batch, *waiting], error)
        except Exception as error:
            if len(batch) == 1:
                return _fail(batch, error)
            for single in batch:  # one event may have caused the error; the others must not fail with it
                await self._append([single])
            return None
        for (_, future), receipt in zip(batch, receipts, strict=True):
            if not future.done():  # done: the request was canceled; its event stays accepted
                future.set_result(receipt)
        return None


def _fail(batch: Sequence[WaitingEvent], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetractionHiding:
    """Hides retracted content, with limited concurrency."""

    hide_all: Callable[[Sequence[Retraction]], object]
    """Blocking function that hides the content of the retractions."""
    threads: Threads
    """The part of the process's threads that hiding may use."""

    async def hide(self, retraction: Retraction) -> None:
        """Try to hide the retracted content. Return without having done so if no thread is free in time."""
        with suppress(TooManyWaiting):  # the retractor reads the retraction from the log, and hides the content later
            await self.threads.run(self.hide_all, [retraction])


@dataclass(slots=True, kw_only=True)
class EventIntake:
    """Passes all events from the routes to the gateway. One instance per event loop."""

    gateway: Gateway
    threads: Threads
    batcher: EventBatcher = field(init=False)
    retraction_hiding: RetractionHiding = field(init=False)

    def __post_init__(self) -> None:
        self.batcher = EventBatcher(append_all=self._append)
        self.retraction_hiding = RetractionHiding(hide_all=self.gateway.hide, threads=limited_threads(self.threads))

    async def accept(self, event: IncomingEvent) -> IntakeReceipt:
        """Accept a single event. Raises LogUnavailable and DiskFull.

        Hides retracted content after the batch, not within: hiding everything by one author takes about a second, for
        which the other events would wait.
        """
        if isinstance(event, NotifierError):
            # Refuse the event without a batch. While the log is unavailable, the event would get a 503 in a batch, and
            # the client would repeat the event.
            return self.gateway.refuse(event)
        receipt = await self.batcher.append(event)
        if isinstance(event, Retraction):
            await self.retraction_hiding.hide(event)
        return receipt

    async def accept_batch(self, events: Sequence[IncomingEvent]) -> Sequence[IntakeReceipt]:
        """Raises LogUnavailable and DiskFull."""
        return await self.threads.run(self.gateway.accept, events)

    async def _append(self, events: Sequence[IncomingEvent]) -> Sequence[IntakeReceipt]:
        return await self.threads.run(self.gateway.append, events)
