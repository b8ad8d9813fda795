"""The connections to one origin, as few as are needed, and the posts that wait for room on them."""

from collections import deque
from collections.abc import Iterator

from notifier.adapters.http2.connect import PendingConnection
from notifier.adapters.http2.connection import Http2Connection
from notifier.adapters.http2.limits import Http2Limits, Origin
from notifier.adapters.http2.request import Done, Flight
from notifier.adapters.http2.socket_connection import Link
from notifier.ports.push import Silence

FRUITLESS = 2
"""Connections in a row that brought no answer; then the origin is left alone for a while. Apple takes a client that
connects again and again for an attack."""


class HostPool:
    def __init__(self, origin: Origin, limits: Http2Limits, *, most: int) -> None:
        self.origin = origin
        self.waiting: deque[Flight] = deque()
        self.links: list[Link] = []
        self.opening: PendingConnection | None = None
        self.used = 0.0
        self._limits, self._most = limits, most
        self._answered_at = 0.0
        self._fruitless = 0
        self._barred_until, self._barred = 0.0, ""
        self._failed = False
        """Whether nobody could be reached just now."""

    def fill(self, now: float) -> None:
        """The first connection first, so that the others may rest."""
        for link in self.links:
            while self.waiting and link.connection.room > 0:
                link.connection.begin(self.waiting.popleft(), now)

    def wants(self, now: float) -> bool:
        """Whether another connection is needed: not while one is opened, or hasn't said how many streams it takes."""
        if not self.waiting or self.opening or len(self._open()) >= self._most or now < self._barred_until:
            return False
        if not all(link.connection.settled for link in self._open()):
            return False
        return not self._open() or now - self.waiting[0].taken >= self._limits.crowded.total_seconds()

    def open(self, now: float) -> None:
        """Goes on with the connection that is being opened."""
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
                self.links.append(Link(opening.socket, Http2Connection(self._limits, now)))

    def wake(self, now: float) -> None:
        for link in self.links:
            link.connection.wake(now)

    def judge(self, now: float) -> None:
        for link in self.links:
            link.judge(now)

    def gather(self, now: float) -> Iterator[Done]:
        """What has become known. What may be sent again waits again, in front."""
        for link in [*self.links]:
            found = link.connection
            if found.leaving and not found.busy:
                link.close()
            yield from found.done
            found.done.clear()
            yield from self._again(link)
            if link.over:
                self._part(link, now)
        yield from self._let_go(now)

    def drop(self) -> None:
        self.waiting.clear()
        for link in self.links:
            link.connection.drop()
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

    def forgettable(self, now: float) -> bool:
        return not self.links and self.idle and now >= self._barred_until

    @property
    def idle(self) -> bool:
        return not (self.waiting or self.opening or any(link.connection.busy for link in self.links))

    def _open(self) -> list[Link]:
        """Those that may take more, now or later."""
        return [link for link in self.links if not link.connection.leaving]

    def _part(self, link: Link, now: float) -> None:
        self.links.remove(link)
        self._answered_at = max(self._answered_at, link.connection.answered_at)
        if link.connection.answered_at:
            self._fruitless = 0
        elif link.connection.begun:
            self._fruitless += 1
            if self._fruitless >= FRUITLESS:
                self._bar(link.over, now)

    def _bar(self, reason: str, now: float) -> None:
        """No connection is opened for a while."""
        self._barred, self._barred_until = reason, now + self._limits.barred.total_seconds()
        self._failed = True

    def _again(self, link: Link) -> Iterator[Done]:
        found = link.connection
        for flight in reversed(found.again):
            if flight.tries >= self._limits.tries:
                yield flight, Silence(reason=found.leaving or "it refused the stream", left=False)
            else:
                self.waiting.appendleft(flight)
        found.again.clear()

    def _let_go(self, now: float) -> Iterator[Done]:
        """Whoever waits for a connection that can't be had, or for one that has answered nobody for too long."""
        failed, self._failed = self._failed or now < self._barred_until, False
        if failed and not self.links and not self.opening:
            reason = self._barred
        elif self.waiting and not self.opening and now - self._since() >= self._limits.answer.total_seconds():
            reason = "nobody was answered in time"
        else:
            return
        while self.waiting:
            yield self.waiting.popleft(), Silence(reason=reason, left=False)

    def _since(self) -> float:
        """When anybody was answered last, or whoever waits first began to."""
        return max(self.waiting[0].taken, self._answered_at, *(link.connection.answered_at for link in self.links))
