"""Connection pool of one origin: few connections, and a queue of waiting requests."""

from collections import deque
from collections.abc import Iterator

from notifier.adapters.http2.connect import PendingConnection
from notifier.adapters.http2.connection import Http2Connection
from notifier.adapters.http2.limits import Http2Limits, Origin
from notifier.adapters.http2.request import FinishedRequest, RequestInFlight
from notifier.adapters.http2.socket_connection import SocketConnection
from notifier.ports.push import NoReply

MAX_FAILED_CONNECTIONS = 2
"""Consecutive connections without an answer after which the origin is paused.

Apple treats a client that reconnects repeatedly as an attack.
"""


class HostPool:
    def __init__(self, origin: Origin, limits: Http2Limits, *, max_connections: int) -> None:
        self.origin = origin
        self.waiting: deque[RequestInFlight] = deque()
        self.links: list[SocketConnection] = []
        self.opening: PendingConnection | None = None
        self.used = 0.0
        self._limits, self._most = limits, max_connections
        self._answered_at = 0.0
        self._fruitless = 0
        self._barred_until, self._barred = 0.0, ""
        self._failed = False
        """Whether the last connection attempt failed."""

    def fill(self, now: float) -> None:
        """Start waiting requests on the first connections with room, so that the others stay idle."""
        for link in self.links:
            while self.waiting and link.connection.free_streams > 0:
                link.connection.begin(self.waiting.popleft(), now)

    def needs_connection(self, now: float) -> bool:
        """Return whether another connection is needed.

        None is needed while one is being opened, or while one has not announced its stream limit.
        """
        if not self.waiting or self.opening or len(self._open()) >= self._most or now < self._barred_until:
            return False
        if not all(link.connection.settled for link in self._open()):
            return False
        return not self._open() or now - self.waiting[0].accepted_at >= self._limits.crowded_after.total_seconds()

    def open(self, now: float) -> None:
        """Advance the connection that is being opened, if any."""
        if (opening := self.opening) is None:
            return
        try:
            opening.step(now)
        except OSError as error:
            opening.close()
            self.opening = None
            self._bar(str(error), now)
        else:
            if opening.ready and opening.socket:
                self.opening = None
                self.links.append(SocketConnection(opening.socket, Http2Connection(self._limits, now)))

    def require_pings_after_idle(self, now: float) -> None:
        for link in self.links:
            link.connection.require_ping_after_idle(now)

    def check_timeouts(self, now: float) -> None:
        for link in self.links:
            link.check_timeouts(now)

    def finished(self, now: float) -> Iterator[FinishedRequest]:
        """Yield the finished requests, and remove closed connections.

        Requests that may be retried return to the front of the queue.
        """
        for link in [*self.links]:
            connection = link.connection
            if connection.leaving and not connection.is_busy:
                link.close()
            yield from connection.done
            connection.done.clear()
            yield from self._requeue_unsent(link)
            if link.over:
                self._remove(link, now)
        yield from self._fail_waiting(now)

    def cancel_all(self) -> None:
        self.waiting.clear()
        for link in self.links:
            link.connection.cancel_all()
            link.write()
            link.connection.done.clear()
            link.connection.again.clear()

    def close(self) -> None:
        if self.opening:
            self.opening.close()
            self.opening = None
        for link in self.links:
            link.close()
        self.links.clear()

    def is_forgettable(self, now: float) -> bool:
        return not self.links and self.is_idle and now >= self._barred_until

    @property
    def is_idle(self) -> bool:
        return not (self.waiting or self.opening or any(link.connection.is_busy for link in self.links))

    def _open(self) -> list[SocketConnection]:
        """Return the connections that accept requests, now or later."""
        return [link for link in self.links if not link.connection.leaving]

    def _remove(self, link: SocketConnection, now: float) -> None:
        self.links.remove(link)
        self._answered_at = max(self._answered_at, link.connection.answered_at)
        if link.connection.answered_at:
            self._fruitless = 0
        elif link.connection.has_begun:
            self._fruitless += 1
            if self._fruitless >= MAX_FAILED_CONNECTIONS:
                self._bar(link.over, now)

    def _bar(self, reason: str, now: float) -> None:
        """Pause the origin: open no connection for a while."""
        self._barred, self._barred_until = reason, now + self._limits.barred_for.total_seconds()
        self._failed = True

    def _requeue_unsent(self, link: SocketConnection) -> Iterator[FinishedRequest]:
        connection = link.connection
        for flight in reversed(connection.again):
            if flight.attempts >= self._limits.attempts:
                yield flight, NoReply(reason=connection.leaving or "the stream was refused", may_have_arrived=False)
            else:
                self.waiting.appendleft(flight)
        connection.again.clear()

    def _fail_waiting(self, now: float) -> Iterator[FinishedRequest]:
        """Fail all waiting requests if no connection can be opened, or if none has answered for too long."""
        failed, self._failed = self._failed or now < self._barred_until, False
        if failed and not self.links and not self.opening:
            reason = self._barred
        elif (
            self.waiting
            and not self.opening
            and now - self._waiting_since() >= self._limits.answer_timeout.total_seconds()
        ):
            reason = "no request was answered in time"
        else:
            return
        while self.waiting:
            yield self.waiting.popleft(), NoReply(reason=reason, may_have_arrived=False)

    def _waiting_since(self) -> float:
        """Return the later of two times: the last answer, and the acceptance of the oldest waiting request."""
        return max(
            self.waiting[0].accepted_at, self._answered_at, *(link.connection.answered_at for link in self.links)
        )
