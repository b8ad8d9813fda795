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

from notifier.adapters.cassandra.bulk.encoding import (
    INBOX_ROW,
    PreencodedBatch,
    PreencodedBatchProtocol,
    RowBatch,
    driver_batch,
    encoding_matches_driver,
)
from notifier.adapters.cassandra.driver.errors import translated
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.domain.errors import StoreUnavailable
from notifier.domain.timing import Backoff

# Congestion control: bytes in flight grow while Cassandra answers soon, and halve when it rejects a message.
#
# Additive increase, multiplicative decrease, as in TCP: independent writers converge to equal shares, and the node's
# queue stays short enough for an urgent tier. Counted in bytes, because message sizes differ tenfold.

INITIAL_WINDOW = 512 * 1024
"""About 100 messages of inbox rows: what one node answers in 30 ms."""
MIN_WINDOW = 256 * 1024
"""Keeps one node busy even if this process stalls for a while; half as much does not."""
MAX_WINDOW = 8 * 1024 * 1024
WINDOW_STEP = 128 * 1024
"""Bytes added per window of answered messages. Before the first slowdown the window doubles instead."""
FULL_SHARE = 0.75
"""Share of the window. Below it the window need not grow; above it waiting callers skip most notifications."""
SLOW_ANSWER = 0.1
"""Seconds. A slower answer has waited in the node's queue, together with other requests."""
BACKOFF = Backoff(first=timedelta(milliseconds=10), longest=timedelta(seconds=1))
"""Delay after consecutive rejections, until a message is accepted."""


@dataclass(slots=True)
class CongestionWindow:
    size: float = INITIAL_WINDOW
    in_flight: int = 0
    consecutive_rejections: int = 0
    """Consecutive rejections since the last accepted message."""
    paused_until: float = 0.0
    slowed_at: float = 0.0

    @property
    def is_full(self) -> bool:
        return self.in_flight > FULL_SHARE * self.size

    def delay(self, message_bytes: int, now: float) -> float | None:
        """Return the seconds until `size` bytes may be sent, or None to wait for an answer.

        A single message may always be sent.
        """
        if now < self.paused_until:
            return self.paused_until - now
        return 0.0 if not self.in_flight or self.in_flight + message_bytes <= self.size else None

    def on_sent(self, message_bytes: int) -> None:
        self.in_flight += message_bytes

    def on_accepted(self, message_bytes: int, sent_at: float, now: float) -> None:
        was_full = self.is_full
        self.in_flight -= message_bytes
        self.consecutive_rejections = 0
        if now - sent_at > SLOW_ANSWER:
            self._shrink(0.8, sent_at, now)
        elif was_full:
            self.size = min(
                MAX_WINDOW, self.size + (WINDOW_STEP * message_bytes / self.size if self.slowed_at else message_bytes)
            )

    def on_rejected(self, message_bytes: int, sent_at: float, now: float) -> None:
        self.in_flight -= message_bytes
        if self._shrink(0.5, sent_at, now):
            self.paused_until = now + BACKOFF.delay(self.consecutive_rejections).total_seconds()
            self.consecutive_rejections += 1

    def on_lost(self, message_bytes: int) -> None:
        """Remove a message whose result says nothing about the load of the node."""
        self.in_flight -= message_bytes

    def _shrink(self, factor: float, sent_at: float, now: float) -> bool:
        """Shrink the window by a factor.

        Ignore messages sent before the last slowdown: they report the same congestion.
        """
        if sent_at < self.slowed_at:
            return False
        self.size, self.slowed_at = max(MIN_WINDOW, self.size * factor), now
        return True


GIVES_UP_AFTER = 3.0
"""Seconds without an accepted message after which a call fails; its slice is better handed back."""

_BUSY = (vendor.WriteTimeout, protocol.OverloadedErrorMessage, ConnectionBusy, NoConnectionsAvailable)
"""The node or the connection is busy. Whether a row was written doesn't matter: writes are idempotent."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _SendCall:
    """State of one caller of `send`."""

    rejected: deque[RowBatch] = field(default_factory=deque)
    in_flight: int = 0
    error: BaseException | None = None
    rejected_since: float | None = None
    """Time of the first rejection since the last accepted message."""
    last_answer_at: float = field(default_factory=monotonic)
    """Time of the last answer of any kind. While nothing is in flight: of the last message sent."""


class BulkWriter:
    """Bulk writer. All callers share one congestion window."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        gives_up_after: float = GIVES_UP_AFTER,
        window: CongestionWindow | None = None,
        handler: type[protocol.ProtocolHandler] = PreencodedBatchProtocol,
    ) -> None:
        self._cluster = cluster
        self._gives_up_after = gives_up_after
        self._answer_timeout = cluster.access.answers_within.total_seconds()
        self._handler = handler
        self._window = window or CongestionWindow()
        self._result_arrived = Condition()
        self._session: Session | None = None
        self._has_encoder = False

    def query_id(self) -> bytes:
        """Return the prepared id of the row statement. Raises StoreUnavailable."""
        query_id: bytes = self._cluster.prepare(INBOX_ROW).query_id
        return query_id

    def send(self, messages: Iterable[RowBatch]) -> None:
        """Write all messages at a quorum. Messages that a busy node rejects are sent again, more slowly.

        Raises StoreUnavailable if the node doesn't answer, or accepts nothing for a while. Some rows may then have been
        written, and some may still be.
        """
        call = _SendCall()
        with translated("Writing rows failed"):
            for message in self._sendable(call, iter(messages)):
                self._send_async(call, message)

    def _sendable(self, call: _SendCall, messages: Iterator[RowBatch]) -> Iterator[RowBatch]:
        """Yield messages when they may be sent, rejected ones first, until all are accepted."""
        following = next(messages, None)
        while (message := self._next_sendable(call, following)) is not None:
            yield message
            if message is following:
                following = next(messages, None)

    def _next_sendable(self, call: _SendCall, following: RowBatch | None) -> RowBatch | None:
        with self._result_arrived:
            while call.error is None:
                message = call.rejected[0] if call.rejected else following
                if message is None and not call.in_flight:
                    return None
                wait = None if message is None else self._window.delay(message.size, monotonic())
                if message is not None and wait == 0.0:
                    if message is not following:
                        call.rejected.popleft()
                    call.last_answer_at = call.last_answer_at if call.in_flight else monotonic()
                    call.in_flight += 1
                    self._window.on_sent(message.size)
                    return message
                self._wait(call, wait)
            raise call.error

    def _wait(self, call: _SendCall, seconds: float | None) -> None:
        """Wait for an answer. Raises StoreUnavailable if none arrives in time.

        The driver's own timeout is off: it would keep every message in memory until then, answered or not.
        """
        if call.in_flight:
            remaining = call.last_answer_at + self._answer_timeout - monotonic()
            if remaining <= 0:
                raise StoreUnavailable("Writing rows failed: the nodes do not answer.")
            seconds = remaining if seconds is None else min(remaining, seconds)
        # If other calls fill the window and end without an answer, no notification arrives: check again after a
        # timeout.
        self._result_arrived.wait(self._answer_timeout if seconds is None else seconds)

    def _send_async(self, call: _SendCall, message: RowBatch) -> None:
        on_response = partial(self._on_result, call, message, monotonic())
        try:
            future = self._session_for(message).execute_async(self._statement(message), timeout=None)
        except BaseException as error:
            on_response(error)
            raise
        future.add_callbacks(lambda _: on_response(None), on_response)

    def _on_result(self, call: _SendCall, message: RowBatch, sent_at: float, error: BaseException | None) -> None:
        """Handle the result of a message. It runs in the driver's thread and must not block."""
        now = monotonic()
        with self._result_arrived:
            call.in_flight -= 1
            call.last_answer_at = now
            if error is None:
                self._window.on_accepted(message.size, sent_at, now)
                call.rejected_since = None
                if call.in_flight and self._window.is_full:
                    return  # no caller could send more
            elif _is_busy(error):
                self._window.on_rejected(message.size, sent_at, now)
                call.rejected.append(message)
                call.rejected_since = now if call.rejected_since is None else call.rejected_since
                if now - call.rejected_since > self._gives_up_after:
                    call.error = call.error or error
            else:
                self._window.on_lost(message.size)
                call.error = call.error or error
            self._result_arrived.notify_all()

    def _session_for(self, message: RowBatch) -> Session:
        """Return the session with our encoding installed, or unchanged if the driver's internals have changed."""
        session = self._cluster.session()
        if session is not self._session:
            if premade := encoding_matches_driver(self._handler, message, self._cluster.prepare(message.statement)):
                session.client_protocol_handler = self._handler
            else:
                _log.warning(
                    "this cassandra-driver does not accept premade messages; rows are written in its own "
                    "batches, which is slower"
                )
            self._session, self._has_encoder = session, premade
        return session

    def _statement(self, message: RowBatch) -> Any:
        return (
            PreencodedBatch(message)
            if self._has_encoder
            else driver_batch(message, self._cluster.prepare(message.statement))
        )


def _is_busy(error: BaseException) -> bool:
    """Return whether the error means a busy node. NoHostAvailable holds the error of each node's connection."""
    errors = list(error.errors.values()) if isinstance(error, NoHostAvailable) else [error]
    return bool(errors) and all(isinstance(cause, _BUSY) for cause in errors)
