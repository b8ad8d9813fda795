"""Request origins, and the state of one HTTP/2 request."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from notifier.adapters.http2.hpack import encode_fields
from notifier.ports.push import NoReply, Post, Reply

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


NOT_QUEUED = 1 << 62
"""`end_offset` of a request that is not queued completely: more bytes than any connection sends."""
MAX_BODY_BYTES = 32_768
"""Maximum body of a response; longer bodies are cut off. Responses of push services are far shorter."""


@dataclass(slots=True, eq=False)
class Request:
    post: Post
    origin: Origin
    accepted_at: float
    attempt_count: int = 0
    deadline: float = 0.0
    stream: int = 0
    end_offset: int = NOT_QUEUED
    """The connection's count of sent bytes at which this request is sent completely.

    Until then the peer cannot have the whole request.
    """
    window: int = 0
    """Bytes of the body that the peer's window for this stream still admits."""
    unqueued_body: bytes = b""
    """Part of the body that is not queued yet."""
    # The response so far.
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def begin_attempt(self, stream: int, window: int, deadline: float) -> None:
        """Reset the state: an earlier attempt may have ended halfway."""
        self.stream, self.window, self.deadline = stream, window, deadline
        self.attempt_count += 1
        self.end_offset, self.unqueued_body = NOT_QUEUED, self.post.body
        self.status, self.headers, self.body = 0, {}, b""

    def reply(self) -> Reply:
        return Reply(status=self.status, headers=self.headers, body=self.body[:MAX_BODY_BYTES])

    def reply_or_failure(self, reason: str, *, may_have_arrived: bool) -> Reply | NoReply:
        """Return the reply as far as it arrived if its status is a success, otherwise NoReply.

        An error without its whole body explains nothing.
        """
        return self.reply() if 200 <= self.status < 300 else NoReply(reason=reason, may_have_arrived=may_have_arrived)


FinishedRequest = tuple[Request, Reply | NoReply]


def is_valid_request(post: Post) -> bool:
    """Return whether the path and the header values are valid.

    Some providers answer an invalid request with a connection error, which also fails the other requests in flight.
    """
    path = post.path
    if not (path[:1] == "/" and path.isascii() and path.isprintable() and " " not in path):
        return False
    return all(value.isprintable() for _, value in post.headers)


def parse_response(fields: Sequence[tuple[bytes, bytes]]) -> tuple[int, dict[str, str]]:
    """Return the status (0 if missing or invalid) and the headers. Repeated headers are joined by commas."""
    status, headers = 0, dict[str, str]()
    for raw_name, value in fields:
        if raw_name == b":status":
            status = int(value) if len(value) == 3 and value.isdigit() else 0
            continue
        name, text = raw_name.decode("latin-1"), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return status, headers
