"""Live hub: feeds the open streams of one API process.

New bursts come from the bus at once. The store is also read once a second, for new bursts whose message the bus lost.
Later growth comes from the bus alone, so all clients load their page again if bus messages may have been missed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import VISIBILITY_DEADLINE
from notifier.domain.errors import (
    CacheUnavailable,
    NotFound,
    StoreUnavailable,
    StreamsFull,
    TooManyStreams,
    Unavailable,
)
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.users.visibility import CERTAINLY_VISIBLE_AGE
from notifier.flow.inbox.inbox import UncachedInbox
from notifier.flow.inbox.page import OpenedInbox
from notifier.flow.live.listeners import READ_OVERLAP, ListenerRegistry
from notifier.flow.live.streams_and_events import LONG_AGO, Listener, RecentBurstBuffer, Stream
from notifier.metrics import Metrics
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.live_bus import LiveMessage, LiveReader, MarksChanged, MissedUpdates

TaskCoroutine = Coroutine[Any, Any, None]


@dataclass(slots=True, kw_only=True)
class BackgroundTasks:
    """Background tasks of a hub. The first stream starts them."""

    startup: Callable[[], TaskCoroutine]
    """Calls `start` for each background task. Streams open only after it has returned."""
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    startup_task: "asyncio.Task[None] | None" = None
    """The task that runs `startup`; None before the first start and after `stop`."""

    async def ensure_started(self) -> None:
        """Wait until the startup has finished; begin it if necessary.

        Canceling a caller does not cancel the startup. After a failed startup, the next call begins another one.
        """
        if self.startup_task is None or _failed(self.startup_task):
            self.startup_task = asyncio.create_task(self.startup())
        await asyncio.shield(self.startup_task)

    def start(self, work: TaskCoroutine) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def has_started(self) -> bool:
        return self.startup_task is not None and self.startup_task.done() and not _failed(self.startup_task)

    def stop(self) -> None:
        self.startup_task = None
        for task in self.tasks:
            task.cancel()


def _failed(startup_task: "asyncio.Task[None]") -> bool:
    return startup_task.done() and (startup_task.cancelled() or startup_task.exception() is not None)


LOGGER = logging.getLogger("notifier.live")

MAX_STREAMS_PER_USER = 10
"""Maximum number of streams per user: a few devices with a few browser tabs each."""
MAX_FACTS_AGE = timedelta(seconds=10)
"""Age at which a listener's viewer facts are read again, because other processes may have changed them."""
SWEEP_INTERVAL_SECONDS = 1.0
"""Pause between rounds of a background task. A burst whose bus message was lost arrives about this much later."""
BUS_CONNECT_TIMEOUT_SECONDS = 0.5
"""Longest time that the first stream waits for the bus. If the bus connects later, clients load their page
again."""
HEARTBEAT_INTERVAL = timedelta(seconds=15)
"""Time without a byte after which a stream gets a heartbeat. Proxies and phones close connections that are silent for
30 to 60 s. A stream is cut off if one write takes longer than this."""
IDLE_STOP_AFTER = timedelta(minutes=2)
"""Time without a stream after which the hub stops. Clients that lost their connection return within a minute, and a
running hub can send them what they missed."""


class OpenedBursts(Protocol):
    async def opened_since(self, moment: datetime) -> Sequence[Burst]:
        """Return the bursts opened since `moment`, oldest first. Raises StoreUnavailable."""
        ...


@dataclass(slots=True, kw_only=True)
class LiveHub:
    """Opens streams and feeds them. One instance per event loop.

    The hub starts with its first stream, and stops after IDLE_STOP_AFTER without streams.
    """

    inbox: UncachedInbox
    bus: LiveReader
    bursts: OpenedBursts
    metrics: Metrics
    clock: Clock
    pause: Callable[[float], Awaitable[object]]
    """Sleeps the given number of seconds."""
    max_streams: int
    name: str
    """Unique name of this hub. The hub ignores messages about marks that it has sent itself."""
    registry: ListenerRegistry = field(init=False)
    stream_counts: Counter[UserId] = field(default_factory=Counter)
    swept_at: datetime | None = None
    """Start of the last sweep of the store."""
    caught_up_at: datetime = LONG_AGO
    """When the bus last signaled that all its messages have been read."""
    is_disconnected: bool = True
    """True until the bus connects, and while its connection is lost. Bus messages are missed meanwhile."""
    is_closed: bool = False
    bus_connected: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the bus has connected since the hub started."""
    last_closed_at: datetime = LONG_AGO
    background_tasks: BackgroundTasks = field(init=False)

    def __post_init__(self) -> None:
        self.background_tasks = BackgroundTasks(startup=self._start_tasks)
        self.registry = ListenerRegistry(inbox=self.inbox, clock=self.clock)
        self.metrics.streams.set(0)  # a killed process may have left a value

    async def open(self, user: UserId, ends_at: float) -> tuple[Listener, Stream]:
        """Open a stream that ends at the Unix time `ends_at`. The caller closes it with `close_stream`."""
        self._reserve_stream(user)
        try:
            await self.background_tasks.ensure_started()
            listener = await self.registry.get_or_add(user)
        except BaseException:
            self._release_stream(user)
            raise
        now = self.clock.now()
        # A page that the client has just loaded may lack bursts of the last few seconds.
        stream = Stream(since=now - CERTAINLY_VISIBLE_AGE, ends_at=ends_at, written_at=now)
        listener.streams.append(stream)
        if self.is_closed:  # `close` ran during an await above, and did not see this stream
            stream.end()
        try:
            await self.registry.refresh(listener)
        except BaseException:
            self.close_stream(listener, stream)
            raise
        stream.marks_fingerprint = listener.marks_fingerprint
        # Opening a stream counts as activity of the user, as opening the inbox does.
        self.inbox.observe(OpenedInbox(view=listener.view(now), after=None, page=None, badge=None))
        return listener, stream

    def close_stream(self, listener: Listener, stream: Stream) -> None:
        listener.streams.remove(stream)
        if not listener.streams:
            self.registry.remove(listener)
        self._release_stream(listener.user)

    def as_of(self) -> datetime:
        """Return the time up to which the hub has received all bursts and all their growth."""
        swept = LONG_AGO if self.swept_at is None else self.swept_at + CERTAINLY_VISIBLE_AGE - VISIBILITY_DEADLINE
        return max(LONG_AGO, min(self.clock.now(), swept, self.caught_up_at) - CERTAINLY_VISIBLE_AGE)

    def publish_marks(self, user: UserId, bursts: Collection[BurstKey] = ()) -> None:
        """Update all streams of a user after a change of marks or preferences.

        `bursts` are the bursts whose marks were set, if any.

        Other processes get the change through the bus. While the bus is down, they read it after MAX_FACTS_AGE.
        """
        message = MarksChanged(user=user, bursts=tuple(bursts), by=self.name)
        self.apply_marks(message)
        self.background_tasks.start(self._publish(message))

    def apply_marks(self, message: MarksChanged) -> None:
        """Read the user's facts again, and send the bursts of the message with their marks.

        Bursts are sent even if their marks have not changed. Otherwise, after two devices set opposite marks at once,
        one device would go on showing the mark that lost.
        """
        if listener := self.registry.listeners.get(message.user):
            listener.loaded_at = LONG_AGO
            listener.unsent_marks |= {*message.bursts}
            self.background_tasks.start(self._run_step(partial(self._refresh_or_end, listener)))

    def reset_listeners(self) -> None:
        """Reset all listeners, because messages of the bus may have been missed.

        Clients then load their page again, which has the missed growth.
        """
        self.registry.buffer.complete_since = self.clock.now()
        for listener in self.registry.listeners.values():
            listener.reset()

    async def sweep(self) -> None:
        """Deliver recent bursts of the store, in case the bus has lost their messages. Raises StoreUnavailable."""
        now = self.clock.now()  # take the time first: the read may miss bursts that become readable later
        for burst in await self.bursts.opened_since((self.swept_at or now) - READ_OVERLAP):
            self.registry.deliver(burst)
        self.swept_at = now

    async def refresh_outdated(self) -> None:
        for listener in [*self.registry.listeners.values()]:
            if listener.loaded_at <= self.clock.now() - MAX_FACTS_AGE:
                try:
                    await self._refresh_or_end(listener)
                except StoreUnavailable:  # an outage ends the round, and the next round begins with the other listeners
                    self.registry.move_to_end(listener)
                    raise

    async def check_streams(self) -> None:
        """End expired streams, wake streams that need a heartbeat, cut off stalled writes, and stop an idle hub."""
        now = self.clock.now()
        for stream in self._streams():
            if stream.ends_at <= now.timestamp():
                stream.end()
            if now - stream.written_at >= HEARTBEAT_INTERVAL:
                stream.wake_event.set()
                if stream.is_writing:
                    stream.cut_off()
        if (
            not self.stream_counts
            and self.background_tasks.has_started()
            and now - self.last_closed_at >= IDLE_STOP_AFTER
        ):
            self._stop_tasks()

    def close(self) -> None:
        self.is_closed = True
        for stream in self._streams():
            stream.end()
            if stream.is_writing:
                stream.cut_off()
        self.background_tasks.stop()

    def _streams(self) -> list[Stream]:
        return [stream for listener in self.registry.listeners.values() for stream in listener.streams]

    def _reserve_stream(self, user: UserId) -> None:
        if self.is_closed:
            raise StreamsFull("This process is shutting down.")
        if self.stream_counts.total() >= self.max_streams:
            raise StreamsFull(f"The limit is {self.max_streams} streams.")
        if self.stream_counts[user] >= MAX_STREAMS_PER_USER:
            raise TooManyStreams(f"The limit is {MAX_STREAMS_PER_USER} streams per user.")
        self.stream_counts[user] += 1
        self.metrics.streams.set(self.stream_counts.total())

    async def _start_tasks(self) -> None:
        with suppress(Unavailable):
            await self.sweep()
        if self.is_closed:
            return
        self.background_tasks.start(self._listen())
        for step in (self.sweep, self.refresh_outdated, self.registry.send_due_digests, self.check_streams):
            self.background_tasks.start(self._repeat_step(step))
        with suppress(TimeoutError):
            async with asyncio.timeout(BUS_CONNECT_TIMEOUT_SECONDS):
                await self.bus_connected.wait()

    def _stop_tasks(self) -> None:
        """Stop the background tasks, and reset the hub.

        The buffer is dropped, because it would lack the bursts that are published until the next start.
        """
        self.background_tasks.stop()
        self.registry.buffer = RecentBurstBuffer(max_bursts=self.registry.buffer.max_bursts)
        self.swept_at, self.caught_up_at, self.is_disconnected = None, LONG_AGO, True
        self.bus_connected.clear()

    def _release_stream(self, user: UserId) -> None:
        self.stream_counts[user] -= 1
        if not self.stream_counts[user]:
            del self.stream_counts[user]
        self.last_closed_at = self.clock.now()
        self.metrics.streams.set(self.stream_counts.total())

    async def _refresh_or_end(self, listener: Listener) -> None:
        try:
            await self.registry.refresh(listener)
        except NotFound:
            for stream in listener.streams:
                stream.end()

    async def _listen(self) -> None:
        while True:
            try:
                async with aclosing(self.bus.listen()) as messages:
                    async for message in messages:
                        self._handle(message)
            except CacheUnavailable:  # fails open: the sweep of the store goes on
                self.metrics.outages.labels("cache").inc()
            except Exception:
                LOGGER.exception("the live bus failed")
            self.is_disconnected = True
            await self.pause(SWEEP_INTERVAL_SECONDS)

    def _handle(self, message: LiveMessage | None) -> None:
        match message:
            case Burst():
                self.registry.deliver(message)
            case MarksChanged():
                if message.by != self.name:
                    self.apply_marks(message)
            case MissedUpdates():
                self.reset_listeners()
            case None:
                self._note_caught_up()

    def _note_caught_up(self) -> None:
        self.caught_up_at = self.clock.now()
        if self.is_disconnected:
            self.is_disconnected = False
            self.reset_listeners()
            self.bus_connected.set()

    async def _publish(self, message: MarksChanged) -> None:
        try:
            await self.bus.publish_marks(message)
        except CacheUnavailable:  # fails open: other processes read the marks after MAX_FACTS_AGE
            self.metrics.outages.labels("cache").inc()

    async def _repeat_step(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._run_step(work)
            await self.pause(SWEEP_INTERVAL_SECONDS)

    async def _run_step(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Unavailable:  # fails open: the facts that were read before stay in use until the store answers again
            self.metrics.outages.labels("store").inc()
        except Exception:
            LOGGER.exception("a step of the live streams failed")
