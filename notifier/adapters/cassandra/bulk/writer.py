"""Writes inbox rows in bulk, with premade messages and asynchronous driver requests."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from threading import Condition
from time import monotonic
from typing import Any

import cassandra as vendor
from cassandra import protocol
from cassandra.cluster import NoHostAvailable, Session
from cassandra.connection import ConnectionBusy
from cassandra.pool import NoConnectionsAvailable

from notifier.adapters.cassandra.bulk.encoding import INBOX_ROW, Premade, RowBatch, Splicing, fits, stock
from notifier.adapters.cassandra.driver.errors import translated
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.domain.errors import StoreUnavailable
from notifier.domain.timing import Backoff

# Congestion control: bytes in flight grow while Cassandra answers soon, and halve when it rejects a message.
#
# Additive increase, multiplicative decrease, as in TCP: independent writers converge to equal shares, and the node's
# queue stays short enough for an urgent tier. Counted in bytes, because message sizes differ tenfold.

BEGINS = 512 * 1024
"""About 100 messages of inbox rows: what one node answers in 30 ms."""
LEAST = 256 * 1024
"""Keeps one node busy even if this process stalls for a while; half as much does not."""
MOST = 8 * 1024 * 1024
STEP = 128 * 1024
"""Bytes added per window of answered messages. Before the first slowdown the window doubles instead."""
FULL = 0.75
"""Share of the window. Below it the window need not grow; above it waiting callers skip most notifications."""
SOON = 0.1
"""Seconds. A slower answer has waited in the node's queue, together with other requests."""
BACKOFF = Backoff(first=timedelta(milliseconds=10), longest=timedelta(seconds=1))
"""Delay after consecutive rejections, until a message is accepted."""


@dataclass(slots=True)
class CongestionWindow:
    allowed: float = BEGINS
    underway: int = 0
    refusals: int = 0
    """Consecutive rejections since the last accepted message."""
    quiet_until: float = 0.0
    slowed_at: float = 0.0

    @property
    def full(self) -> bool:
        return self.underway > FULL * self.allowed

    def wait(self, size: int, now: float) -> float | None:
        """Return the seconds until `size` bytes may be sent, or None to wait for an answer.

        A single message may always be sent.
        """
        if now < self.quiet_until:
            return self.quiet_until - now
        return 0.0 if not self.underway or self.underway + size <= self.allowed else None

    def sent(self, size: int) -> None:
        self.underway += size

    def answered(self, size: int, sent_at: float, now: float) -> None:
        full = self.full
        self.underway -= size
        self.refusals = 0
        if now - sent_at > SOON:
            self._slow(0.8, sent_at, now)
        elif full:
            self.allowed = min(MOST, self.allowed + (STEP * size / self.allowed if self.slowed_at else size))

    def refused(self, size: int, sent_at: float, now: float) -> None:
        self.underway -= size
        if self._slow(0.5, sent_at, now):
            self.quiet_until = now + BACKOFF.delay(self.refusals).total_seconds()
            self.refusals += 1

    def gone(self, size: int) -> None:
        """Remove a message whose result says nothing about the load of the node."""
        self.underway -= size

    def _slow(self, by: float, sent_at: float, now: float) -> bool:
        """Shrink the window by a factor.

        Ignore messages sent before the last slowdown: they report the same congestion.
        """
        if sent_at < self.slowed_at:
            return False
        self.allowed, self.slowed_at = max(LEAST, self.allowed * by), now
        return True


PATIENCE = 3.0
"""Seconds without an accepted message after which a call fails; its slice is better handed back."""

_BUSY = (vendor.WriteTimeout, protocol.OverloadedErrorMessage, ConnectionBusy, NoConnectionsAvailable)
"""The node or the connection is busy. Whether a row was written doesn't matter: writes are idempotent."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Call:
    """State of one caller of `send`."""

    refused: deque[RowBatch] = field(default_factory=deque)
    underway: int = 0
    error: BaseException | None = None
    refused_since: float | None = None
    """Time of the first rejection since the last accepted message."""
    heard_at: float = field(default_factory=monotonic)
    """Time of the last answer of any kind. While nothing is in flight: of the last message sent."""


class Bulk:
    """Bulk writer. All callers share one congestion window."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        patience: float = PATIENCE,
        window: CongestionWindow | None = None,
        handler: type[protocol.ProtocolHandler] = Splicing,
    ) -> None:
        self._cluster = cluster
        self._patience = patience
        self._silence = cluster.access.answers_within.total_seconds()
        self._handler = handler
        self._window = window or CongestionWindow()
        self._news = Condition()
        self._session: Session | None = None
        self._premade = False

    def query_id(self) -> bytes:
        """Return the prepared id of the row statement. Raises StoreUnavailable."""
        query_id: bytes = self._cluster.prepared(INBOX_ROW).query_id
        return query_id

    def send(self, messages: Iterable[RowBatch]) -> None:
        """Write all messages at a quorum. Messages that a busy node rejects are sent again, more slowly.

        Raises StoreUnavailable if the node doesn't answer, or accepts nothing for a while. Some rows may then have been
        written, and some may still be.
        """
        call = _Call()
        with translated("Rows were not written"):
            for message in self._turns(call, iter(messages)):
                self._go(call, message)

    def _turns(self, call: _Call, messages: Iterator[RowBatch]) -> Iterator[RowBatch]:
        """Yield messages when they may be sent, rejected ones first, until all are accepted."""
        following = next(messages, None)
        while (message := self._turn(call, following)) is not None:
            yield message
            if message is following:
                following = next(messages, None)

    def _turn(self, call: _Call, following: RowBatch | None) -> RowBatch | None:
        with self._news:
            while call.error is None:
                message = call.refused[0] if call.refused else following
                if message is None and not call.underway:
                    return None
                wait = None if message is None else self._window.wait(message.size, monotonic())
                if message is not None and wait == 0.0:
                    if message is not following:
                        call.refused.popleft()
                    call.heard_at = call.heard_at if call.underway else monotonic()
                    call.underway += 1
                    self._window.sent(message.size)
                    return message
                self._wait(call, wait)
            raise call.error

    def _wait(self, call: _Call, seconds: float | None) -> None:
        """Wait for an answer. Raises StoreUnavailable if none arrives in time.

        The driver's own timeout is off: it would keep every message in memory until then, answered or not.
        """
        if call.underway:
            remaining = call.heard_at + self._silence - monotonic()
            if remaining <= 0:
                raise StoreUnavailable("Rows were not written: nothing is answered.")
            seconds = remaining if seconds is None else min(remaining, seconds)
        # If other calls fill the window and end without an answer, no notification arrives: check again after a
        # timeout.
        self._news.wait(self._silence if seconds is None else seconds)

    def _go(self, call: _Call, message: RowBatch) -> None:
        on_response = partial(self._told, call, message, monotonic())
        try:
            future = self._ready(message).execute_async(self._statement(message), timeout=None)
        except BaseException as error:
            on_response(error)
            raise
        future.add_callbacks(lambda _: on_response(None), on_response)

    def _told(self, call: _Call, message: RowBatch, sent_at: float, error: BaseException | None) -> None:
        """Handle the result of a message. It runs in the driver's thread and must not block."""
        now = monotonic()
        with self._news:
            call.underway -= 1
            call.heard_at = now
            if error is None:
                self._window.answered(message.size, sent_at, now)
                call.refused_since = None
                if call.underway and self._window.full:
                    return  # no caller could send more
            elif _busy(error):
                self._window.refused(message.size, sent_at, now)
                call.refused.append(message)
                call.refused_since = now if call.refused_since is None else call.refused_since
                if now - call.refused_since > self._patience:
                    call.error = call.error or error
            else:
                self._window.gone(message.size)
                call.error = call.error or error
            self._news.notify_all()

    def _ready(self, message: RowBatch) -> Session:
        """Return the session with our encoding installed, or unchanged if the driver's internals have changed."""
        session = self._cluster.session()
        if session is not self._session:
            if premade := fits(self._handler, message, self._cluster.prepared(message.statement)):
                session.client_protocol_handler = self._handler
            else:
                _log.warning("This cassandra-driver takes no premade messages: rows go in its own batches, slowly.")
            self._session, self._premade = session, premade
        return session

    def _statement(self, message: RowBatch) -> Any:
        return Premade(message) if self._premade else stock(message, self._cluster.prepared(message.statement))


def _busy(error: BaseException) -> bool:
    """Return whether the error means a busy node. NoHostAvailable holds the error of each node's connection."""
    errors = list(error.errors.values()) if isinstance(error, NoHostAvailable) else [error]
    return bool(errors) and all(isinstance(cause, _BUSY) for cause in errors)
