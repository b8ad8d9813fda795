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
    PUT_INBOX_ROW,
    PreencodedBatch,
    PreencodedBatchProtocol,
    RowBatch,
    driver_batch,
    encoding_matches_driver,
)
from notifier.adapters.cassandra.driver.errors import translate_errors
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.domain.errors import StoreUnavailable
from notifier.domain.timing import Backoff

# Congestion control: the window of bytes in flight grows while Cassandra responds soon, and halves when it rejects a
# message.
#
# Additive increase, multiplicative decrease, as in TCP: independent writers converge to equal shares, and the node's
# queue stays short enough for an urgent tier. The window is in bytes, because message sizes differ tenfold.

INITIAL_WINDOW = 512 * 1024
"""About 100 messages of inbox rows: what one node writes in 30 ms."""
MIN_WINDOW = 256 * 1024
"""Keeps one node busy even if this process stalls for a while; half as much does not."""
MAX_WINDOW = 8 * 1024 * 1024
WINDOW_STEP = 128 * 1024
"""Bytes added per window of accepted messages. Before the first slowdown the window doubles instead."""
FULL_SHARE = 0.75
"""Share of the window. With fewer bytes in flight the window need not grow. With more, a caller is not notified of each
accepted message, because it could send nothing."""
SLOW_RESPONSE = 0.1
"""Seconds. A slower response has waited in the node's queue, together with other requests."""
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
        """Return the seconds until a message of this size may be sent, or None to wait for a response.

        While nothing is in flight, a message of any size may be sent.
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
        if now - sent_at > SLOW_RESPONSE:
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
        """Shrink the window by a factor, and return whether it was shrunk.

        Ignore messages sent before the last slowdown: they report the same congestion.
        """
        if sent_at < self.slowed_at:
            return False
        self.size, self.slowed_at = max(MIN_WINDOW, self.size * factor), now
        return True


GIVE_UP_AFTER = 3.0
"""Seconds without an accepted message after which a call fails, so that its slice is handed back."""

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
    last_result_at: float = field(default_factory=monotonic)
    """Time of the last result of any kind. While nothing is in flight: of the last message sent."""


class BulkWriter:
    """Bulk writer. All callers share one congestion window."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        gives_up_after: float = GIVE_UP_AFTER,
        window: CongestionWindow | None = None,
        handler: type[protocol.ProtocolHandler] = PreencodedBatchProtocol,
    ) -> None:
        self._cluster = cluster
        self._gives_up_after = gives_up_after
        self._response_timeout = cluster.access.response_timeout.total_seconds()
        self._handler = handler
        self._window = window or CongestionWindow()
        self._result_arrived = Condition()
        self._session: Session | None = None
        self._has_encoder = False

    def query_id(self) -> bytes:
        """Return the prepared id of the row statement. Raises StoreUnavailable."""
        query_id: bytes = self._cluster.prepare(PUT_INBOX_ROW).query_id
        return query_id

    def send(self, messages: Iterable[RowBatch]) -> None:
        """Write all messages at a quorum. Messages that a busy node rejects are sent again, more slowly.

        Raises StoreUnavailable if the nodes don't respond, or accept nothing for a while. Some rows are then written,
        and some may be written later.
        """
        call = _SendCall()
        with translate_errors("Writing rows failed"):
            for message in self._sendable(call, iter(messages)):
                self._send_async(call, message)

    def _sendable(self, call: _SendCall, messages: Iterator[RowBatch]) -> Iterator[RowBatch]:
        """Yield messages when they may be sent, rejected ones first, until all are accepted."""
        next_message = next(messages, None)
        while (message := self._next_sendable(call, next_message)) is not None:
            yield message
            if message is next_message:
                next_message = next(messages, None)

    def _next_sendable(self, call: _SendCall, next_message: RowBatch | None) -> RowBatch | None:
        with self._result_arrived:
            while call.error is None:
                message = call.rejected[0] if call.rejected else next_message
                if message is None and not call.in_flight:
                    return None
                wait = None if message is None else self._window.delay(message.size, monotonic())
                if message is not None and wait == 0.0:
                    if message is not next_message:
                        call.rejected.popleft()
                    if not call.in_flight:
                        call.last_result_at = monotonic()
                    call.in_flight += 1
                    self._window.on_sent(message.size)
                    return message
                self._wait(call, wait)
            raise call.error

    def _wait(self, call: _SendCall, seconds: float | None) -> None:
        """Wait for a result. Raises StoreUnavailable if none arrives in time.

        The driver's own timeout is off: the driver would keep each message in memory until its timeout, even after the
        result.
        """
        if call.in_flight:
            remaining = call.last_result_at + self._response_timeout - monotonic()
            if remaining <= 0:
                raise StoreUnavailable("Writing rows failed: the nodes do not answer.")
            seconds = remaining if seconds is None else min(remaining, seconds)
        # If other calls fill the window and end without a result, no notification arrives: check again after a timeout.
        self._result_arrived.wait(self._response_timeout if seconds is None else seconds)

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
            call.last_result_at = now
            if error is None:
                self._window.on_accepted(message.size, sent_at, now)
                call.rejected_since = None
                if call.in_flight and self._window.is_full:
                    return  # the window is full: no caller could send more
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
            if matches := encoding_matches_driver(self._handler, message, self._cluster.prepare(message.statement)):
                session.client_protocol_handler = self._handler
            else:
                _log.warning(
                    "this cassandra-driver does not accept premade messages; rows are written in its own "
                    "batches, which is slower"
                )
            self._session, self._has_encoder = session, matches
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
