"""HTTP/2 transport to many origins from one thread, without unsafe resends."""

import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from select import POLLIN, POLLOUT, poll

from notifier.adapters.http2.connect import DnsLookups, PendingConnection, Resolver, resolve_addresses
from notifier.adapters.http2.limits import Http2Limits
from notifier.adapters.http2.pool import OriginPool
from notifier.adapters.http2.request import Origin, Request, is_valid_request
from notifier.adapters.http2.socket_connection import SocketConnection
from notifier.domain.errors import BadSetting
from notifier.ports.push import NoReply, Post, Reply

CHECK_INTERVAL = 0.05
"""Seconds between two checks for timeouts."""
MAX_ACCEPTED_PER_STEP = 64
"""Maximum number of requests taken from the source between two polls.

While the source builds them, no socket is read.
"""


class Http2Transport:
    """HTTP/2 transport with its own framing on non-blocking sockets.

    It never resends a request that may have been processed. Connections stay open between two exchanges. The transport
    connects only to addresses that `resolver` returns; TLS verifies the name of the origin. Redirects are not followed.
    """

    def __init__(
        self,
        *,
        limits: Http2Limits = Http2Limits(),
        ca_file: Path | None = None,
        allow_plaintext: bool = False,
        resolver: Resolver = resolve_addresses,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the transport. Raises BadSetting if the file `ca_file` cannot be read.

        The CA certificates in `ca_file` replace those of the system. `allow_plaintext` also allows `http:` origins.
        """
        self._limits, self._allow_plaintext, self._monotonic = limits, allow_plaintext, monotonic
        # With plaintext allowed, TLS is rarely used. So the system's CA certificates, which take 0.1 s to load, are
        # loaded at the first use of TLS.
        self._tls = None if allow_plaintext and ca_file is None else _create_tls_context(ca_file)
        self._lookups = DnsLookups(resolver)
        self._pools: dict[tuple[str, bool], OriginPool] = {}
        self._finished: deque[tuple[Post, Reply | NoReply]] = deque()
        self._pending_count = 0
        """Requests that are accepted and have no result yet."""
        self._timeouts_checked_at = 0.0
        self._exchanging = False

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | NoReply]]:
        """Send the requests, and yield each with its response in the order of the responses.

        Raises RuntimeError if another exchange has not ended: the two would get each other's responses.
        """
        if self._exchanging:
            raise RuntimeError("This transport is already running another exchange.")
        self._exchanging = True
        try:
            self._prepare_idle_connections()
            source, has_more = iter(posts), True
            while has_more or self._pending_count:
                has_more = has_more and self._accept_from(source)
                self._step(wait=not (self._finished or (has_more and self._free_place_count())))
                while self._finished:
                    yield self._finished.popleft()
        finally:
            self._cancel_all()
            self._exchanging = False

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        self._lookups.close()

    def _prepare_idle_connections(self) -> None:
        now = self._monotonic()
        for pool in self._pools.values():
            pool.require_pings_after_idle(now)
        self._step(wait=False)  # read what arrived since the last exchange, to notice closed connections

    def _accept_from(self, source: Iterator[Post]) -> bool:
        """Accept requests from the source while there is room. Return False once the source is exhausted."""
        now = self._monotonic()
        for _ in range(min(MAX_ACCEPTED_PER_STEP, self._free_place_count())):
            if (post := next(source, None)) is None:
                return False
            self._pending_count += 1
            self._accept(post, now)
        return True

    def _free_place_count(self) -> int:
        return self._limits.max_waiting - sum(len(pool.waiting_requests) for pool in self._pools.values())

    def _accept(self, post: Post, now: float) -> None:
        if (pool := self._pools.get((post.origin, post.needs_own_connection))) is None:
            try:
                pool = self._create_pool(post)
            except ValueError as error:
                self._finish(post, NoReply(reason=str(error), may_have_arrived=False))
                return
        if is_valid_request(post):
            pool.last_used_at = now
            pool.waiting_requests.append(Request(post=post, origin=pool.origin, accepted_at=now))
        else:
            self._finish(
                post, NoReply(reason="the path or a header can't be encoded in a request", may_have_arrived=False)
            )

    def _create_pool(self, post: Post) -> OriginPool:
        origin = Origin.parse(post.origin)
        if not (origin.is_secure or self._allow_plaintext):
            raise ValueError("plain-text HTTP is not allowed here")
        pool = OriginPool(
            origin, self._limits, max_connections=1 if post.needs_own_connection else self._limits.max_connections
        )
        self._pools[post.origin, post.needs_own_connection] = pool
        return pool

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = _create_tls_context(None)
        return self._tls

    def _step(self, *, wait: bool) -> None:
        """Advance all connections once: open, write, read, and collect results. Wait for a socket only with `wait`."""
        now = self._monotonic()
        for pool in self._pools.values():
            self._open_connection(pool, now)
            pool.start_waiting_requests(now)
            for connection in pool.connections:
                connection.write()
        self._poll(CHECK_INTERVAL if wait else 0.0)
        self._collect()

    def _open_connection(self, pool: OriginPool, now: float) -> None:
        if pool.needs_connection(now) and self._make_room(pool):
            tls = self._tls_context() if pool.origin.is_secure else None
            deadline = now + self._limits.open_timeout.total_seconds()
            pool.pending_connection = PendingConnection(pool.origin, tls, self._lookups, deadline=deadline)
        if pool.pending_connection:
            pool.advance_pending_connection(now)

    def _make_room(self, requester: OriginPool) -> bool:
        """Make room for one more connection, and return whether there is room.

        If the limit is reached, close the connections of the least recently used idle pool.
        """
        pools = self._pools.values()
        if (
            sum(len(pool.connections) + bool(pool.pending_connection) for pool in pools)
            < self._limits.max_total_connections
        ):
            return True
        idle_pools = [pool for pool in pools if pool.connections and pool.is_idle and pool is not requester]
        if idle_pools:
            min(idle_pools, key=lambda pool: pool.last_used_at).close()
        return bool(idle_pools)

    def _poll(self, seconds: float) -> None:
        poller, connections = poll(), dict[int, SocketConnection]()
        poller.register(self._lookups.wakeup_socket, POLLIN)
        for pool in self._pools.values():
            if pool.pending_connection and pool.pending_connection.socket and pool.pending_connection.wanted_events:
                poller.register(pool.pending_connection.socket, pool.pending_connection.wanted_events)
            for connection in pool.connections:
                poller.register(connection.socket, POLLIN | POLLOUT if connection.is_write_blocked else POLLIN)
                connections[connection.socket.fileno()] = connection
        has_unread = any(connection.may_have_unread for connection in connections.values())
        ready = dict(poller.poll(0 if has_unread else seconds * 1000))
        now = self._monotonic()
        for number, connection in connections.items():
            if connection.may_have_unread or ready.get(number, 0) & ~POLLOUT:
                connection.read(now)
        if self._lookups.wakeup_socket.fileno() in ready:
            self._lookups.clear_wakeup()

    def _collect(self) -> None:
        now = self._monotonic()
        if is_check_due := now - self._timeouts_checked_at >= CHECK_INTERVAL:
            self._timeouts_checked_at = now
        for pool in self._pools.values():
            if is_check_due:
                pool.check_timeouts(now)
            for request, answer in pool.collect_finished(now):
                self._finish(request.post, answer)
        if is_check_due:
            self._pools = {key: pool for key, pool in self._pools.items() if not pool.is_removable(now)}

    def _finish(self, post: Post, answer: Reply | NoReply) -> None:
        self._pending_count -= 1
        self._finished.append((post, answer))

    def _cancel_all(self) -> None:
        for pool in self._pools.values():
            pool.cancel_all()
        self._pending_count = 0
        self._finished.clear()


def _create_tls_context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise BadSetting(f"Can't read the CA certificates in {ca_file}: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    return context
