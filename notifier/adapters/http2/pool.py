"""Connection pool of an origin: few connections, and a queue of requests."""

from collections import deque
from collections.abc import Iterator

from notifier.adapters.http2.connect import PendingConnection
from notifier.adapters.http2.connection_protocol import Http2Connection
from notifier.adapters.http2.limits import Http2Limits
from notifier.adapters.http2.request import FinishedRequest, Origin, Request
from notifier.adapters.http2.socket_connection import SocketConnection
from notifier.ports.push import NoReply

MAX_FAILED_CONNECTIONS = 2
"""Consecutive connections that sent requests and got no response, after which the origin is paused.

Apple treats a client that reconnects repeatedly as an attack.
"""


class OriginPool:
    """Connections to one origin. Requests that need their own connection have a separate pool."""

    def __init__(self, origin: Origin, limits: Http2Limits, *, max_connections: int) -> None:
        self.origin = origin
        self.waiting_requests: deque[Request] = deque()
        self.connections: list[SocketConnection] = []
        self.pending_connection: PendingConnection | None = None
        self.last_used_at = 0.0
        self._limits, self._max_connections = limits, max_connections
        self._last_response_at = 0.0
        self._failed_connection_count = 0
        self._paused_until, self._pause_reason = 0.0, ""
        self._paused_since_check = False
        """Whether a pause has begun since the last call of `_fail_waiting`."""

    def start_waiting_requests(self, now: float) -> None:
        """Start waiting requests on the first connections that have free streams, so that later ones stay idle."""
        for connection in self.connections:
            while self.waiting_requests and connection.protocol.free_stream_count > 0:
                connection.protocol.start_request(self.waiting_requests.popleft(), now)

    def needs_connection(self, now: float) -> bool:
        """Return whether to open another connection for the waiting requests.

        Return False while the stream limit of an existing connection is unknown: that connection may suffice.
        """
        if (
            not self.waiting_requests
            or self.pending_connection
            or len(self._usable_connections()) >= self._max_connections
            or now < self._paused_until
        ):
            return False
        if not all(connection.protocol.knows_stream_limit for connection in self._usable_connections()):
            return False
        return (
            not self._usable_connections()
            or now - self.waiting_requests[0].accepted_at >= self._limits.max_stream_wait.total_seconds()
        )

    def advance_pending_connection(self, now: float) -> None:
        if (pending := self.pending_connection) is None:
            return
        try:
            pending.step(now)
        except OSError as error:
            pending.close()
            self.pending_connection = None
            self._pause(str(error), now)
        else:
            if pending.is_open and pending.socket:
                self.pending_connection = None
                self.connections.append(SocketConnection(pending.socket, Http2Connection(self._limits, now)))

    def require_pings_after_idle(self, now: float) -> None:
        for connection in self.connections:
            connection.protocol.require_ping_after_idle(now)

    def check_timeouts(self, now: float) -> None:
        for connection in self.connections:
            connection.check_timeouts(now)

    def collect_finished(self, now: float) -> Iterator[FinishedRequest]:
        """Yield the finished requests, and remove closed connections.

        Requests that may be retried return to the front of the queue.
        """
        for connection in [*self.connections]:
            protocol = connection.protocol
            if protocol.closing_reason and not protocol.is_busy:
                connection.close()
            yield from protocol.finished
            protocol.finished.clear()
            yield from self._requeue_resendable(connection)
            if connection.closed_reason:
                self._remove(connection, now)
        yield from self._fail_waiting(now)

    def cancel_all(self) -> None:
        self.waiting_requests.clear()
        for connection in self.connections:
            connection.protocol.cancel_all()
            connection.write()
            connection.protocol.finished.clear()
            connection.protocol.resendable.clear()

    def close(self) -> None:
        if self.pending_connection:
            self.pending_connection.close()
            self.pending_connection = None
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    def is_removable(self, now: float) -> bool:
        return not self.connections and self.is_idle and now >= self._paused_until

    @property
    def is_idle(self) -> bool:
        return not (
            self.waiting_requests
            or self.pending_connection
            or any(connection.protocol.is_busy for connection in self.connections)
        )

    def _usable_connections(self) -> list[SocketConnection]:
        """Return the connections that accept requests, now or later."""
        return [connection for connection in self.connections if not connection.protocol.closing_reason]

    def _remove(self, connection: SocketConnection, now: float) -> None:
        self.connections.remove(connection)
        self._last_response_at = max(self._last_response_at, connection.protocol.last_response_at)
        if connection.protocol.last_response_at:
            self._failed_connection_count = 0
        elif connection.protocol.has_started_requests:
            self._failed_connection_count += 1
            if self._failed_connection_count >= MAX_FAILED_CONNECTIONS:
                self._pause(connection.closed_reason, now)

    def _pause(self, reason: str, now: float) -> None:
        self._pause_reason, self._paused_until = reason, now + self._limits.pause_after_failure.total_seconds()
        self._paused_since_check = True

    def _requeue_resendable(self, connection: SocketConnection) -> Iterator[FinishedRequest]:
        protocol = connection.protocol
        for request in reversed(protocol.resendable):
            if request.attempt_count >= self._limits.max_attempts:
                yield (
                    request,
                    NoReply(reason=protocol.closing_reason or "the stream was refused", may_have_arrived=False),
                )
            else:
                self.waiting_requests.appendleft(request)
        protocol.resendable.clear()

    def _fail_waiting(self, now: float) -> Iterator[FinishedRequest]:
        is_paused, self._paused_since_check = self._paused_since_check or now < self._paused_until, False
        if is_paused and not self.connections and not self.pending_connection:
            reason = self._pause_reason
        elif (
            self.waiting_requests
            and not self.pending_connection
            and now - self._last_progress_at() >= self._limits.answer_timeout.total_seconds()
        ):
            reason = "no request was answered in time"
        else:
            return
        while self.waiting_requests:
            yield self.waiting_requests.popleft(), NoReply(reason=reason, may_have_arrived=False)

    def _last_progress_at(self) -> float:
        """Return when the last response arrived or the first waiting request was accepted, whichever is later."""
        return max(
            self.waiting_requests[0].accepted_at,
            self._last_response_at,
            *(connection.protocol.last_response_at for connection in self.connections),
        )
