"""A post on its way: how far its request has gone, and what has come of its answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from notifier.adapters.http2.limits import Origin
from notifier.ports.push import Post, Reply, Silence

UNSENT = 1 << 62
"""Where the end of a request lies that isn't queued whole: farther than any connection gets."""
MOST_BODY = 32_768
"""Of an answer; what comes after it is cut off. Push services say what they have to say in 1 KB."""


@dataclass(slots=True, eq=False)
class Flight:
    post: Post
    origin: Origin
    taken: float
    tries: int = 0
    due: float = 0.0
    stream: int = 0
    ends: int = UNSENT
    """How much its connection has sent when the last byte of the request has gone: before that nobody can act on it."""
    window: int = 0
    rest: bytes = b""
    """Of the body, what the peer's windows have no room for yet."""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def begin(self, stream: int, window: int, due: float) -> None:
        """Anew: an earlier connection may have broken amid it."""
        self.stream, self.window, self.due = stream, window, due
        self.tries += 1
        self.ends, self.rest = UNSENT, self.post.body
        self.status, self.headers, self.body = 0, {}, b""

    def reply(self) -> Reply:
        return Reply(status=self.status, headers=self.headers, body=self.body[:MOST_BODY])

    def unanswered(self, reason: str, *, left: bool) -> Reply | Silence:
        """Accepted, if that much was said; any other status may lack the words that explain it."""
        return self.reply() if 200 <= self.status < 300 else Silence(reason=reason, left=left)


Done = tuple[Flight, Reply | Silence]


def answer(fields: Sequence[tuple[bytes, bytes]]) -> tuple[int, dict[str, str]]:
    """Status and headers; a status of 0 where there is none. What is said twice is joined, as HTTP has it."""
    status, headers = 0, dict[str, str]()
    for raw, value in fields:
        if raw == b":status":
            status = int(value) if len(value) == 3 and value.isdigit() else 0
            continue
        name, said = raw.decode("latin-1"), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {said}" if name in headers else said
    return status, headers
