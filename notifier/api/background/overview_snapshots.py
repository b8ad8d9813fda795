"""System overview: one snapshot a second at most, shared by all watchers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Protocol

import msgspec
from litestar.types import Send

from notifier.api.event_stream import KEEP_ALIVE
from notifier.api.process_status_loading_progress_metrics import RoleProcesses, loading_progress
from notifier.api.schemas.system_overview import system_body
from notifier.concurrency_and_time_limits import Threads
from notifier.domain.errors import NotifierError, StreamsFull, Unavailable
from notifier.flow.operations.overview import Overview

SNAPSHOT_SECONDS = 1.0
SNAPSHOT_WAIT_SECONDS = 5.0
"""Seconds that a stream waits for a slow snapshot before it sends KEEP_ALIVE instead.

The demo page closes a connection that is silent for 8 seconds.
"""


class SnapshotReader(Protocol):
    async def read(self) -> bytes:
        """Return the current overview as JSON. Raises StoreUnavailable.

        A call runs to completion even if the caller is canceled. Calls must not overlap, because rates are computed
        between consecutive readings.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewReader:
    """Reads the overview in a thread. `data` is the data folder."""

    overview: Overview
    roles: RoleProcesses
    data: Path
    threads: Threads

    async def read(self) -> bytes:
        return await self.threads.run(self._read)

    def _read(self) -> bytes:
        return msgspec.json.encode(system_body(self.overview.read(), self.roles, loading_progress(self.data)))


@dataclass(slots=True)
class SharedSnapshots:
    """Lets all requests and streams of a process share one read of the overview (singleflight)."""

    reader: SnapshotReader
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    now: Callable[[], float] = monotonic
    snapshot_wait: float = SNAPSHOT_WAIT_SECONDS
    snapshot: bytes = b""
    """The last snapshot, as JSON."""
    taken_at: float | None = None
    read_task: "asyncio.Task[bytes] | None" = None

    async def latest(self) -> bytes:
        """Return the snapshot of the last second, or read a new one. Raises the reader's errors.

        A running read continues even if every caller is canceled.
        """
        if self.read_task is None:
            if self.taken_at is not None and self.now() - self.taken_at < SNAPSHOT_SECONDS:
                return self.snapshot
            self.read_task = asyncio.create_task(self._read())
        return await asyncio.shield(self.read_task)

    async def events(self) -> AsyncGenerator[bytes]:
        """Yield server-sent events for one watcher. Snapshots are not queued, so a slow watcher misses some."""
        sent: bytes | None = None
        while True:
            try:
                async with asyncio.timeout(self.snapshot_wait):
                    snapshot = await self.latest()
            except TimeoutError:
                yield KEEP_ALIVE
            except NotifierError as error:
                sent = None
                yield b"event: trouble\ndata: " + msgspec.json.encode({"code": error.code}) + b"\n\n"
            else:
                if snapshot is not sent:
                    sent = snapshot
                    yield b"event: system\ndata: " + snapshot + b"\n\n"
            await self.pause(SNAPSHOT_SECONDS)

    async def _read(self) -> bytes:
        try:
            self.snapshot = await self.reader.read()
            self.taken_at = self.now()
            return self.snapshot
        finally:
            self.read_task = None


LOCK_TIMEOUT = timedelta(milliseconds=50)
"""Maximum time for which a request waits for the lock.

A request for an event's status holds such a lock while it searches the log. Without a backlog this takes less than
LOCK_TIMEOUT, so another request that arrives meanwhile succeeds. A longer wait would block a thread that event intake
needs.
"""


@dataclass(frozen=True, slots=True)
class RequestLock:
    """Lock for expensive requests that run one at a time."""

    busy_text: str
    """Error text for a request that does not get the lock in time."""
    lock: Lock = field(default_factory=Lock)

    def __enter__(self) -> None:
        """Take the lock. Raises Unavailable if it is not free in time."""
        if not self.lock.acquire(timeout=LOCK_TIMEOUT.total_seconds()):
            raise Unavailable(self.busy_text)

    def __exit__(self, *_: object) -> None:
        self.lock.release()


# Open streams of `/v1/system/stream`.

MAX_OVERVIEW_STREAMS = 64
"""Maximum streams per process: enough for a team's screens. The other file descriptors are for users' streams."""
WRITE_TIMEOUT_SECONDS = 15.0
"""A client that does not read for this long is cut off."""


@dataclass(slots=True)
class OverviewStreamLimit:
    max_streams: int = MAX_OVERVIEW_STREAMS
    write_timeout: float = WRITE_TIMEOUT_SECONDS
    open_count: int = 0

    def require_room(self) -> None:
        """Raise StreamsFull if the maximum number of streams is open."""
        if self.open_count >= self.max_streams:
            raise StreamsFull(f"All {self.max_streams} streams of the overview are in use.")


@dataclass(frozen=True, slots=True)
class SnapshotStream:
    limit: OverviewStreamLimit
    events: AsyncGenerator[bytes]

    def open(self) -> None:
        self.limit.open_count += 1

    def started(self, writing: "asyncio.Task[None]") -> None:
        """Do nothing, because a watcher is cut off only by its own write timeout."""

    async def write(self, send: Send) -> None:
        with suppress(TimeoutError):
            async with aclosing(self.events) as events:
                async for event in events:
                    async with asyncio.timeout(self.limit.write_timeout):
                        await send({"type": "http.response.body", "body": event, "more_body": True})

    def closed(self) -> None:
        self.limit.open_count -= 1
