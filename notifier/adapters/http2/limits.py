"""Limits and timeouts of the HTTP/2 transport, and request origins."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Self
from urllib.parse import urlsplit

from notifier.adapters.http2.hpack import encode_fields
from notifier.ports.push import Post


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


DEFAULT_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Origin of requests, such as `https://api.push.apple.com`."""

    host: str
    port: int
    is_secure: bool
    encoded_headers: bytes
    """Encoded headers at the beginning of every request to this origin."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an origin. Raises ValueError."""
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
        if parts.scheme not in DEFAULT_PORTS or not (host and text.isascii() and text.isprintable()):
            raise ValueError(f"not an origin: {text[:80]!r}")
        if (
            parts.path
            or parts.query
            or parts.fragment
            or "@" in parts.netloc
            or any(character in host for character in "% \\")
        ):
            raise ValueError(f"more than an origin: {text[:80]!r}")
        bracketed_host = f"[{host}]" if ":" in host else host
        authority = bracketed_host if port == DEFAULT_PORTS[parts.scheme] else f"{bracketed_host}:{port}"
        encoded_headers = encode_fields([(":method", "POST"), (":scheme", parts.scheme), (":authority", authority)])
        return cls(host=host, port=port, is_secure=parts.scheme == "https", encoded_headers=encoded_headers)


def is_valid_request(post: Post) -> bool:
    """Return whether the path and the header values are valid.

    Some providers answer an invalid request with a connection error, which also fails the other requests in flight.
    """
    path = post.path
    if not (path[:1] == "/" and path.isascii() and path.isprintable() and " " not in path):
        return False
    return all(value.isprintable() for _, value in post.headers)
