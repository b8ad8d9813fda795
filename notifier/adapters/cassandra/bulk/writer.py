"""Writes inbox rows in bulk, with pre-encoded messages and congestion control."""

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
    RowMessage,
    driver_batch,
    encoding_matches_driver,
)
from notifier.adapters.cassandra.driver.error_translation import translate_errors
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.domain.backoff_due_times_alert_ages import Backoff
from notifier.domain.errors import StoreUnavailable

# Congestion control. The congestion window is the number of bytes that may be in flight. The window grows while
# Cassandra responds quickly, and shrinks after a slow response or a rejection.
#
# As in TCP, the increase is additive and the decrease multiplicative. Independent writers therefore converge to equal
# shares, and the node's queue stays short enough for an urgent tier. The window counts bytes, not messages, because
# message sizes differ tenfold.

INITIAL_WINDOW = 512 * 1024
"""Initial window in bytes: about 100 messages, which one node writes in 30 ms."""
MIN_WINDOW = 256 * 1024
"""Smallest window in bytes. With half as much, one node would run idle when this process stalls."""
MAX_WINDOW = 8 * 1024 * 1024
WINDOW_STEP = 128 * 1024
"""Growth of the window in bytes, after a full window of accepted messages.

A new window doubles instead, until it shrinks for the first time.
"""
FULL_SHARE = 0.75
"""Share of the window above which it counts as full.

Only a full window grows. While the window is full, an accepted message wakes callers only if its own call has nothing
else in flight. So a woken caller can usually send many messages.
"""
SLOW_RESPONSE_SECONDS = 0.1
"""Response time above which the window shrinks: the message has probably waited in the node's queue."""
BACKOFF = Backoff(first=timedelta(milliseconds=10), longest=timedelta(seconds=1))
"""Pause after a rejection. It grows with the number of consecutive rejections."""


@dataclass(slots=True)
class CongestionWindow:
    """Decides when a message may be sent. Not thread-safe."""

    size: float = INITIAL_WINDOW
    """Bytes that may be in flight."""
    bytes_in_flight: int = 0
    consecutive_rejections: int = 0
    """Number of rejections since the last accepted message.

    The rejection of a message that was sent before the window last shrank is not counted.
    """
    paused_until: float = 0.0
    shrunk_at: float = 0.0
    """Time at which the window last shrank, or 0 if it never did."""

    @property
    def is_full(self) -> bool:
        return self.bytes_in_flight > FULL_SHARE * self.size

    def delay(self, message_bytes: int, now: float) -> float | None:
        """Return the seconds until a message of this size may be sent; None if a response must arrive first.

        While nothing is in flight, the size of the message does not matter.
        """
        if now < self.paused_until:
            return self.paused_until - now
        return 0.0 if not self.bytes_in_flight or self.bytes_in_flight + message_bytes <= self.size else None

    def on_sent(self, message_bytes: int) -> None:
        self.bytes_in_flight += message_bytes

    def on_accepted(self, message_bytes: int, sent_at: float, now: float) -> None:
        was_full = self.is_full
        self.bytes_in_flight -= message_bytes
        self.consecutive_rejections = 0
        if now - sent_at > SLOW_RESPONSE_SECONDS:
            self._shrink(0.8, sent_at, now)
        elif was_full:
            self.size = min(
                MAX_WINDOW, self.size + (WINDOW_STEP * message_bytes / self.size if self.shrunk_at else message_bytes)
            )

    def on_rejected(self, message_bytes: int, sent_at: float, now: float) -> None:
        self.bytes_in_flight -= message_bytes
        if self._shrink(0.5, sent_at, now):
            self.paused_until = now + BACKOFF.delay(self.consecutive_rejections).total_seconds()
            self.consecutive_rejections += 1

    def on_failed(self, message_bytes: int) -> None:
        """Remove a message that failed for a reason other than the node's load."""
        self.bytes_in_flight -= message_bytes

    def _shrink(self, factor: float, sent_at: float, now: float) -> bool:
        """Shrink the window by a factor, and return True.

        Do nothing and return False if the message was sent before the window last shrank: it reports the same
        congestion.
        """
        if sent_at < self.shrunk_at:
            return False
        self.size, self.shrunk_at = max(MIN_WINDOW, self.size * factor), now
        return True


GIVE_UP_AFTER_SECONDS = 3.0
"""Seconds of rejections, without an accepted message, after which a call of `send` fails."""

_BUSY_ERRORS = (vendor.WriteTimeout, protocol.OverloadedErrorMessage, ConnectionBusy, NoConnectionsAvailable)
"""Errors of a busy node or connection. The message is sent again: writing a row twice is harmless."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _SendCall:
    """State of one call of `send`."""

    rejected: deque[RowMessage] = field(default_factory=deque)
    """Messages to send again."""
    in_flight: int = 0
    """Messages in flight."""
    error: BaseException | None = None
    rejected_since: float | None = None
    """Time of the first rejection since the last accepted message."""
    awaiting_result_since: float = field(default_factory=monotonic)
    """Start of the wait for a result, valid while a message is in flight."""


class BulkWriter:
    """Sends messages of inbox rows. Concurrent calls of `send` share one congestion window."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        gives_up_after: float = GIVE_UP_AFTER_SECONDS,
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
        self._uses_preencoding = False

    def query_id(self) -> bytes:
        query_id: bytes = self._cluster.prepare(PUT_INBOX_ROW).query_id
        return query_id

    def send(self, messages: Iterable[RowMessage]) -> None:
        """Write all messages at a quorum. Messages that a busy node rejects are sent again, more slowly.

        Raises as `Cluster.query` does. Some rows may be written before the error, and some afterwards.
        """
        call = _SendCall()
        with translate_errors("Writing rows failed"):
            for message in self._sendable(call, iter(messages)):
                self._send_async(call, message)

    def _sendable(self, call: _SendCall, messages: Iterator[RowMessage]) -> Iterator[RowMessage]:
        """Yield each message when it may be sent, rejected ones first, until all are accepted."""
        next_message = next(messages, None)
        while (message := self._next_sendable(call, next_message)) is not None:
            yield message
            if message is next_message:
                next_message = next(messages, None)

    def _next_sendable(self, call: _SendCall, next_message: RowMessage | None) -> RowMessage | None:
        with self._result_arrived:
            while call.error is None:
                message = call.rejected[0] if call.rejected else next_message
                if message is None and not call.in_flight:
                    return None
                wait = None if message is None else self._window.delay(message.byte_count, monotonic())
                if message is not None and wait == 0.0:
                    if message is not next_message:
                        call.rejected.popleft()
                    if not call.in_flight:
                        call.awaiting_result_since = monotonic()
                    call.in_flight += 1
                    self._window.on_sent(message.byte_count)
                    return message
                self._wait(call, wait)
            raise call.error

    def _wait(self, call: _SendCall, seconds: float | None) -> None:
        """Wait for a result, at most for these seconds.

        Raises StoreUnavailable if messages are in flight but no result arrives within the response timeout. This check
        replaces the driver's timeouts, which would need a timer for each message.
        """
        if call.in_flight:
            remaining = call.awaiting_result_since + self._response_timeout - monotonic()
            if remaining <= 0:
                raise StoreUnavailable("Writing rows failed: the nodes do not answer.")
            seconds = remaining if seconds is None else min(remaining, seconds)
        # The window may be full of other calls' messages, to which no node responds. Then nothing notifies this call,
        # so it checks again after a timeout.
        self._result_arrived.wait(self._response_timeout if seconds is None else seconds)

    def _send_async(self, call: _SendCall, message: RowMessage) -> None:
        on_response = partial(self._on_result, call, message, monotonic())
        try:
            future = self._session_for(message).execute_async(self._statement(message), timeout=None)
        except BaseException as error:
            on_response(error)
            raise
        future.add_callbacks(lambda _: on_response(None), on_response)

    def _on_result(self, call: _SendCall, message: RowMessage, sent_at: float, error: BaseException | None) -> None:
        """Handle the result of a message. May run in the driver's thread, so it must not block."""
        now = monotonic()
        with self._result_arrived:
            call.in_flight -= 1
            call.awaiting_result_since = now
            if error is None:
                self._window.on_accepted(message.byte_count, sent_at, now)
                call.rejected_since = None
                if call.in_flight and self._window.is_full:
                    return  # wakes no caller: see FULL_SHARE
            elif _is_busy(error):
                self._window.on_rejected(message.byte_count, sent_at, now)
                call.rejected.append(message)
                call.rejected_since = now if call.rejected_since is None else call.rejected_since
                if now - call.rejected_since > self._gives_up_after:
                    call.error = call.error or error
            else:
                self._window.on_failed(message.byte_count)
                call.error = call.error or error
            self._result_arrived.notify_all()

    def _session_for(self, message: RowMessage) -> Session:
        """Return the session. A new session gets our protocol handler if the driver's internals are as expected."""
        session = self._cluster.session()
        if session is not self._session:
            if matches := encoding_matches_driver(self._handler, message, self._cluster.prepare(message.statement)):
                session.client_protocol_handler = self._handler
            else:
                _log.warning(
                    "this cassandra-driver does not accept pre-encoded messages; rows are written in its own "
                    "batches, which is slower"
                )
            self._session, self._uses_preencoding = session, matches
        return session

    def _statement(self, message: RowMessage) -> Any:
        return (
            PreencodedBatch(message)
            if self._uses_preencoding
            else driver_batch(message, self._cluster.prepare(message.statement))
        )


def _is_busy(error: BaseException) -> bool:
    """Return whether the error, or that of each node in a NoHostAvailable, means a busy node or connection."""
    errors = list(error.errors.values()) if isinstance(error, NoHostAvailable) else [error]
    return bool(errors) and all(isinstance(cause, _BUSY_ERRORS) for cause in errors)
