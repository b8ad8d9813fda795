"""Limits and timeouts of the HTTP/2 transport."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    max_connections: int = 2
    """Maximum connections to one origin. Requests with `Post.needs_own_connection` share one more.

    FCM allows 100 streams per connection. With 50 ms per response, a connection carries 2,000 requests a second.
    """
    max_total_connections: int = 64
    """Maximum connections to all origins. Web Push has many origins. Idle connections are closed to make room."""
    max_streams: int = 1_000
    """Maximum streams on one connection, if the peer allows as many."""
    max_waiting: int = 256
    """Maximum requests, to all origins together, that wait for a stream. At the limit no more are accepted."""
    answer_timeout: timedelta = timedelta(seconds=10)
    """Timeout of a request from its start. Google asks for at least 10 s."""
    open_timeout: timedelta = timedelta(seconds=10)
    """Timeout of DNS look-up, connect and TLS handshake together."""
    max_stream_wait: timedelta = timedelta(milliseconds=50)
    """Time that a request waits for a stream before another connection may be opened.

    If responses are prompt, a stream becomes free sooner.
    """
    ping_after: timedelta = timedelta(seconds=3)
    """Time without received data after which a PING is sent, if requests are in flight."""
    pong_timeout: timedelta = timedelta(seconds=3)
    """Timeout of the PING acknowledgement."""
    ping_after_idle: timedelta = timedelta(seconds=15)
    """Idle time after which a connection must answer a PING before it is used again.

    NAT gateways drop idle connections after minutes. The PING detects that before a request is lost.
    """
    pause_after_failure: timedelta = timedelta(seconds=1)
    """Pause before an origin that failed is tried again."""
    max_attempts: int = 3
    """Attempts after which a request that certainly did not arrive is reported as failed.

    An attempt that fails because the connection closes does not count if other requests progressed on the connection.
    """
