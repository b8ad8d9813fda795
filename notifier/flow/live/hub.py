"""Live hub: the open streams of one API process, and the event sources they share.

Each burst is processed once for all streams. There are two sources: the bus, at once, and once a second the store,
which has every burst whose bus message was lost. Only growth comes from the bus alone: after a gap all clients are
notified to load the page again. Marks are read again every 10 s.
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
from notifier.domain.bursts.sequencer import VISIBLE_WITHIN
from notifier.domain.errors import (
    CacheUnavailable,
    NotFound,
    StoreUnavailable,
    StreamsFull,
    TooManyStreams,
    Unavailable,
)
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.users.visibility import SETTLED_AFTER
from notifier.flow.inbox.inbox import Tab
from notifier.flow.inbox.page import OpenedInbox
from notifier.flow.live.listeners import OVERLAP, Hearers
from notifier.flow.live.stream import LONG_AGO, Listener, RecentBurstBuffer, Stream
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock
from notifier.ports.live_bus import LiveReader, Marked, MissedUpdates, Word

Work = Coroutine[Any, Any, None]


@dataclass(slots=True, kw_only=True)
class Shift:
    """Background tasks that run while streams are open. One instance per event loop.

    The first stream starts them. Ending the shift cancels them all.
    """

    begin: Callable[[], Work]
    """Starts the background tasks with `go`. Each new stream waits until it has returned."""
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    begun: "asyncio.Task[None] | None" = None

    async def attend(self) -> None:
        """Wait until the shift has begun; begin it if necessary.

        Canceling a caller does not cancel the start. After a failure, the next call starts again.
        """
        if self.begun is None or _failed(self.begun):
            self.begun = asyncio.create_task(self.begin())
        await asyncio.shield(self.begun)

    def go(self, work: Work) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def on(self) -> bool:
        """Return whether the shift has completely begun."""
        return self.begun is not None and self.begun.done() and not _failed(self.begun)

    def end(self) -> None:
        """Cancel all tasks at once: none takes another step. The next `attend` begins another shift."""
        self.begun = None
        for task in self.tasks:
            task.cancel()


def _failed(begun: "asyncio.Task[None]") -> bool:
    return begun.done() and (begun.cancelled() or begun.exception() is not None)


LOGGER = logging.getLogger("notifier.live")

OF_A_PERSON = 10
"""Maximum streams per user: a few devices with a few browser tabs each."""
FRESH_FOR = timedelta(seconds=10)
"""Maximum age of a user's follows, blocks and marks in a stream, if another process changed them."""
SWEPT_EVERY = 1.0
"""Seconds. A burst that the bus lost arrives this much later."""
HEARS_WITHIN = 0.5
"""Seconds that the first stream waits for the bus, so that its client need not load the page twice."""
HEARTBEAT = timedelta(seconds=15)
"""Proxies and phones close connections silent for 30 s to a minute. A write that takes longer than this is cut off."""
RESTS_AFTER = timedelta(minutes=2)
"""Time without a stream after which the hub stops. A client that was cut off is back within a minute, and still gets
what it missed."""


class OpenedBursts(Protocol):
    async def opened_since(self, moment: datetime) -> Sequence[Burst]:
        """Return the bursts opened since `moment`, oldest first. Raises StoreUnavailable."""
        ...


@dataclass(slots=True, kw_only=True)
class Hub:
    """One instance per event loop. Starts with its first stream; without streams it stops and reads nothing."""

    tab: Tab
    bus: LiveReader
    bursts: OpenedBursts
    metrics: Metrics
    clock: Clock
    pause: Callable[[float], Awaitable[object]]
    most: int
    name: str
    """Unique among all hubs."""
    hearers: Hearers = field(init=False)
    opened: Counter[UserId] = field(default_factory=Counter)
    swept_at: datetime | None = None
    caught_up_at: datetime = LONG_AGO
    deaf: bool = True
    """There is no connection to the bus, so growth is missed."""
    ended: bool = False
    hearing: asyncio.Event = field(default_factory=asyncio.Event)
    left_at: datetime = LONG_AGO
    """When a stream closed last."""
    shift: Shift = field(init=False)

    def __post_init__(self) -> None:
        self.shift = Shift(begin=self._begin)
        self.hearers = Hearers(tab=self.tab, clock=self.clock)
        self.metrics.streams.set(0)  # a predecessor that was killed left its own number

    async def open(self, user: UserId, ends_at: float) -> tuple[Listener, Stream]:
        """Open a stream. The caller closes it with `leave`.

        Raises TooManyStreams, StreamsFull, NotFound and StoreUnavailable.
        """
        self._admit(user)
        try:
            await self.shift.attend()
            listener = await self.hearers.come(user)
        except BaseException:
            self._dismiss(user)
            raise
        now = self.clock.now()
        # A burst of the last few seconds may be missing from a page that was made meanwhile.
        stream = Stream(since=now - SETTLED_AFTER, ends_at=ends_at, written_at=now)
        listener.streams.append(stream)
        if self.ended:  # closed meanwhile: nothing else would end this stream
            stream.end()
        try:
            await self.hearers.refresh(listener)
        except BaseException:
            self.leave(listener, stream)
            raise
        stream.marks = listener.marks
        self.tab.observe(OpenedInbox(look=listener.look(now), after=None, page=None, badge=None))
        return listener, stream

    def leave(self, listener: Listener, stream: Stream) -> None:
        listener.streams.remove(stream)
        if not listener.streams:
            self.hearers.go(listener)
        self._dismiss(listener.user)

    def as_of(self) -> datetime:
        """Return the time up to which everything was received from store and bus; the same for all listeners."""
        swept = LONG_AGO if self.swept_at is None else self.swept_at + SETTLED_AFTER - VISIBLE_WITHIN
        return max(LONG_AGO, min(self.clock.now(), swept, self.caught_up_at) - SETTLED_AFTER)

    def changed(self, user: UserId, bursts: Collection[BurstKey] = ()) -> None:
        """Publish that this process changed a user's marks.

        The streams of this process get the marks at once. Other processes get them as soon as the bus works, and
        otherwise when they next read the marks.
        """
        message = Marked(user=user, bursts=tuple(bursts), by=self.name)
        self.marked(message)
        self.shift.go(self._tell(message))

    def marked(self, word: Marked) -> None:
        """Send the named bursts again, changed or not: two devices may have set opposite marks at the same moment."""
        if listener := self.hearers.listeners.get(word.user):
            listener.loaded_at = LONG_AGO
            listener.remarked |= {*word.bursts}
            self.shift.go(self._once(partial(self._refreshed, listener)))

    def missed(self) -> None:
        """Reset all listeners: earlier updates may be incomplete, so growth cannot be reported.

        A retraction may be lost with them, so the badges are counted again, too.
        """
        self.hearers.memory.since = self.clock.now()
        for listener in self.hearers.listeners.values():
            listener.reset()

    async def sweep(self) -> None:
        """Process the bursts that the store has and the bus may have lost. Raises StoreUnavailable."""
        now = self.clock.now()  # before the read: later bursts are not covered
        for burst in await self.bursts.opened_since((self.swept_at or now) - OVERLAP):
            self.hearers.hear(burst)
        self.swept_at = now

    async def refresh_old(self) -> None:
        """Refresh the listeners whose facts are older than FRESH_FOR. Raises StoreUnavailable."""
        for listener in [*self.hearers.listeners.values()]:
            if listener.loaded_at <= self.clock.now() - FRESH_FOR:
                try:
                    await self._refreshed(listener)
                except StoreUnavailable:  # an outage ends the round: the other listeners wait for the next
                    self.hearers.put_last(listener)
                    raise

    async def watch(self) -> None:
        """Wake streams that have been silent for long, end those with an expired token, and cut off stalled writes.

        Also stops a hub that has had no streams for RESTS_AFTER.
        """
        now = self.clock.now()
        for stream in self._streams():
            if stream.ends_at <= now.timestamp():
                stream.end()
            if now - stream.written_at >= HEARTBEAT:
                stream.wake.set()
                if stream.writing:
                    stream.cut_off()
        if not self.opened and self.shift.on() and now - self.left_at >= RESTS_AFTER:
            self._rest()

    def close(self) -> None:
        """End all streams, and admit no others."""
        self.ended = True
        for stream in self._streams():
            stream.end()
            if stream.writing:
                stream.cut_off()
        self.shift.end()

    def _streams(self) -> list[Stream]:
        return [stream for listener in self.hearers.listeners.values() for stream in listener.streams]

    def _admit(self, user: UserId) -> None:
        if self.ended or self.opened.total() >= self.most:
            raise StreamsFull(f"It takes {self.most}.")
        if self.opened[user] >= OF_A_PERSON:
            raise TooManyStreams(f"One may have {OF_A_PERSON}.")
        self.opened[user] += 1
        self.metrics.streams.set(self.opened.total())

    async def _begin(self) -> None:
        """Start the background tasks.

        The first client loads a page with everything that the store has already, so only later updates are sent.
        """
        with suppress(Unavailable):
            await self.sweep()
        if self.ended:
            return
        self.shift.go(self._listen())
        for step in (self.sweep, self.refresh_old, self.hearers.remind, self.watch):
            self.shift.go(self._repeated(step))
        with suppress(TimeoutError):
            async with asyncio.timeout(HEARS_WITHIN):
                await self.hearing.wait()

    def _rest(self) -> None:
        """Return to the initial state: from here on the remembered bursts would have a gap, and seem complete."""
        self.shift.end()
        self.hearers.memory = RecentBurstBuffer(most=self.hearers.memory.most)
        self.swept_at, self.caught_up_at, self.deaf = None, LONG_AGO, True
        self.hearing.clear()

    def _dismiss(self, user: UserId) -> None:
        self.opened[user] -= 1
        if not self.opened[user]:
            del self.opened[user]
        self.left_at = self.clock.now()
        self.metrics.streams.set(self.opened.total())

    async def _refreshed(self, listener: Listener) -> None:
        try:
            await self.hearers.refresh(listener)
        except NotFound:
            for stream in listener.streams:
                stream.end()

    async def _listen(self) -> None:
        while True:
            try:
                async with aclosing(self.bus.listen()) as messages:
                    async for message in messages:
                        self._take(message)
            except CacheUnavailable:  # fails open: the store is swept meanwhile
                self.metrics.outages.labels("cache").inc()
            except Exception:
                LOGGER.exception("The live bus could not be heard")
            self.deaf = True
            await self.pause(SWEPT_EVERY)

    def _take(self, word: Word | None) -> None:
        match word:
            case Burst():
                self.hearers.hear(word)
            case Marked():
                if word.by != self.name:
                    self.marked(word)
            case MissedUpdates():
                self.missed()
            case None:
                self._caught_up()

    def _caught_up(self) -> None:
        self.caught_up_at = self.clock.now()
        if self.deaf:
            self.deaf = False
            self.missed()
            self.hearing.set()

    async def _tell(self, word: Marked) -> None:
        try:
            await self.bus.tell(word)
        except CacheUnavailable:  # fails open: other processes read the marks again every FRESH_FOR
            self.metrics.outages.labels("cache").inc()

    async def _repeated(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._once(work)
            await self.pause(SWEPT_EVERY)

    async def _once(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Unavailable:  # fails open: known data stays in use until the store answers again
            self.metrics.outages.labels("store").inc()
        except Exception:
            LOGGER.exception("A step of the live streams failed")
