"""HTTP/2 transport to many origins from one thread, without unsafe resends."""

import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from select import POLLIN, POLLOUT, poll

from notifier.adapters.http2.connect import DnsLookups, PendingConnection, Resolver, addresses
from notifier.adapters.http2.limits import Http2Limits, Origin, is_valid_request
from notifier.adapters.http2.pool import HostPool
from notifier.adapters.http2.request import RequestInFlight
from notifier.adapters.http2.socket_connection import SocketConnection
from notifier.domain.errors import BadSetting
from notifier.ports.push import NoReply, Post, Reply

CHECK_EVERY = 0.05
"""Seconds between two checks for timeouts."""
STARTS_AT_ONCE = 64
"""Requests taken from the source before the sockets are served. The source may have to compute each request."""


class Http2Transport:
    """HTTP/2 transport with its own framing on non-blocking sockets.

    It knows for each request whether it was sent completely, and never resends one that may have arrived. Connections
    stay open between two exchanges. `authorities` is a file of CA certificates to trust instead of those of the
    system. `clear` also allows origins that begin with `http:`. The transport connects only to addresses that
    `resolver` returns; TLS verifies the name of the origin. Redirects are not followed.
    """

    def __init__(
        self,
        *,
        limits: Http2Limits = Http2Limits(),
        authorities: Path | None = None,
        clear: bool = False,
        resolver: Resolver = addresses,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the transport. Raises BadSetting if the file `authorities` cannot be read."""
        self._limits, self._clear, self._monotonic = limits, clear, monotonic
        # With clear text allowed, TLS is rarely used: skip loading the system's authorities, which takes 0.1 s.
        self._tls = None if clear and authorities is None else _tls(authorities)
        self._lookups = DnsLookups(resolver)
        self._lanes: dict[tuple[str, bool], HostPool] = {}
        self._finished: deque[tuple[Post, Reply | NoReply]] = deque()
        self._accepted_count = 0
        """Requests accepted and not answered yet."""
        self._looked_at = 0.0
        self._exchanging = False

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | NoReply]]:
        """Send the requests, and yield each with its answer in the order of the answers.

        Raises RuntimeError if another exchange has not ended: each would get answers of the other.
        """
        if self._exchanging:
            raise RuntimeError("This transport is already running another exchange.")
        self._exchanging = True
        try:
            self._wake()
            source, more = iter(posts), True
            while more or self._accepted_count:
                more = more and self._accept_from(source)
                self._step(wait=not (self._finished or (more and self._free_places())))
                while self._finished:
                    yield self._finished.popleft()
        finally:
            self._cancel_all()
            self._exchanging = False

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()
        self._lookups.close()

    def _wake(self) -> None:
        now = self._monotonic()
        for lane in self._lanes.values():
            lane.require_pings_after_idle(now)
        self._step(wait=False)  # read what arrived in the meantime, so that closed connections are not used

    def _accept_from(self, source: Iterator[Post]) -> bool:
        """Accept requests from the source while there is room. Return False once the source is exhausted."""
        now = self._monotonic()
        for _ in range(min(STARTS_AT_ONCE, self._free_places())):
            if (post := next(source, None)) is None:
                return False
            self._accepted_count += 1
            self._accept(post, now)
        return True

    def _free_places(self) -> int:
        return self._limits.max_waiting - sum(len(lane.waiting) for lane in self._lanes.values())

    def _accept(self, post: Post, now: float) -> None:
        if (lane := self._lanes.get((post.origin, post.isolated))) is None:
            try:
                lane = self._lane(post)
            except ValueError as error:
                self._finish(post, NoReply(reason=str(error), may_have_arrived=False))
                return
        if is_valid_request(post):
            lane.used = now
            lane.waiting.append(RequestInFlight(post=post, origin=lane.origin, accepted_at=now))
        else:
            self._finish(
                post, NoReply(reason="the path or a header can't be encoded in a request", may_have_arrived=False)
            )

    def _lane(self, post: Post) -> HostPool:
        origin = Origin.read(post.origin)
        if not (origin.secure or self._clear):
            raise ValueError("plain-text HTTP is not allowed here")
        lane = HostPool(origin, self._limits, max_connections=1 if post.isolated else self._limits.connections)
        self._lanes[post.origin, post.isolated] = lane
        return lane

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = _tls(None)
        return self._tls

    def _step(self, *, wait: bool) -> None:
        now = self._monotonic()
        for lane in self._lanes.values():
            self._open(lane, now)
            lane.fill(now)
            for link in lane.links:
                link.write()
        self._poll(CHECK_EVERY if wait else 0.0)
        self._collect()

    def _open(self, lane: HostPool, now: float) -> None:
        if lane.needs_connection(now) and self._make_room(lane):
            tls = self._context() if lane.origin.secure else None
            due = now + self._limits.open_timeout.total_seconds()
            lane.opening = PendingConnection(lane.origin, tls, self._lookups, due=due)
        if lane.opening:
            lane.open(now)

    def _make_room(self, wanting: HostPool) -> bool:
        """Make room for one more connection, and return whether there is room.

        With too many connections, the least recently used idle pool is closed.
        """
        lanes = self._lanes.values()
        if sum(len(lane.links) + bool(lane.opening) for lane in lanes) < self._limits.total_connections:
            return True
        idle = [lane for lane in lanes if lane.links and lane.is_idle and lane is not wanting]
        if idle:
            min(idle, key=lambda lane: lane.used).close()
        return bool(idle)

    def _poll(self, seconds: float) -> None:
        """Wait until a socket is readable or writable, and read from the readable ones."""
        polled, links = poll(), dict[int, SocketConnection]()
        polled.register(self._lookups.woken, POLLIN)
        for lane in self._lanes.values():
            if lane.opening and lane.opening.socket and lane.opening.wanted_events:
                polled.register(lane.opening.socket, lane.opening.wanted_events)
            for link in lane.links:
                polled.register(link.socket, POLLIN | POLLOUT if link.blocked else POLLIN)
                links[link.socket.fileno()] = link
        unread = any(link.unread for link in links.values())
        ready = dict(polled.poll(0 if unread else seconds * 1000))
        now = self._monotonic()
        for number, link in links.items():
            if link.unread or ready.get(number, 0) & ~POLLOUT:
                link.read(now)
        if self._lookups.woken.fileno() in ready:
            self._lookups.clear_wakeup()

    def _collect(self) -> None:
        """Collect finished requests, and check for timeouts if due."""
        now = self._monotonic()
        if due := now - self._looked_at >= CHECK_EVERY:
            self._looked_at = now
        for lane in self._lanes.values():
            if due:
                lane.check_timeouts(now)
            for flight, answer in lane.finished(now):
                self._finish(flight.post, answer)
        if due:
            self._lanes = {key: lane for key, lane in self._lanes.items() if not lane.is_forgettable(now)}

    def _finish(self, post: Post, answer: Reply | NoReply) -> None:
        self._accepted_count -= 1
        self._finished.append((post, answer))

    def _cancel_all(self) -> None:
        for lane in self._lanes.values():
            lane.cancel_all()
        self._accepted_count = 0
        self._finished.clear()


def _tls(authorities: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authorities)
    except OSError as error:
        raise BadSetting(
            f"Can't read the certificates of the providers' authorities, {authorities}: {error}"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    return context
