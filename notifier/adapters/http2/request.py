"""State of one HTTP/2 request: bytes sent and response received."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from notifier.adapters.http2.limits import Origin
from notifier.ports.push import NoReply, Post, Reply

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
