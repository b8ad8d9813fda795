"""HTTP/1.1 requests over persistent connections, and the retry schedule."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from notifier.client.errors import InvalidClientSetting, Unanswered


class NoResponse(Exception):
    """No complete response was received. The request may have arrived."""


class Stale(NoResponse):
    """The peer closed the connection, as servers do after a long idle time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    status: int
    retry_after_header: str
    """Value of the `Retry-After` header, or empty."""
    body: bytes


@dataclass(slots=True)
class HttpConnections:
    """Thread-safe pool of persistent connections. A request takes an idle connection, or opens a new one."""

    url: str
    key: str = field(repr=False)
    _: KW_ONLY
    _idle: list[HTTPConnection] = field(default_factory=list, init=False, repr=False)
    """Idle connections. Appending to a list and popping from it is thread-safe."""

    def __post_init__(self) -> None:
        """Validate the URL and the key. Raises InvalidClientSetting."""
        try:
            address = urlsplit(self.url)
            is_usable = address.scheme in ("http", "https") and address.hostname and address.port != 0
        except ValueError:
            is_usable = False
        if not is_usable or not _is_printable(self.url) or " " in self.url:
            raise InvalidClientSetting(f"Invalid address {self.url!r}; write it like https://notifier.example.")
        if not self.key or not _is_printable(self.key):
            raise InvalidClientSetting("The key is empty or contains invalid characters, such as a line break.")

    def post(self, path: str, content_type: str, body: bytes, timeout: float) -> HttpReply:
        """Post the body and return the response. `timeout` is the socket timeout in seconds. Raises NoResponse."""
        if self._idle:
            # The service may have closed the connection while it was idle. Retry at once on a new one.
            with suppress(Stale, IndexError):
                return self._exchange(self._idle.pop(), path, content_type, body, timeout)
        return self._exchange(self._new_connection(), path, content_type, body, timeout)

    def close(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _new_connection(self) -> HTTPConnection:
        address = urlsplit(self.url)
        connection_type = HTTPSConnection if address.scheme == "https" else HTTPConnection
        return connection_type(address.hostname or "", address.port)

    def _exchange(
        self, connection: HTTPConnection, path: str, content_type: str, body: bytes, timeout: float
    ) -> HttpReply:
        connection.timeout = timeout
        if connection.sock:
            connection.sock.settimeout(timeout)
        try:
            was_body_sent = self._send_request(connection, path, content_type, body)
            response = connection.getresponse()
            header = response.headers.get("Retry-After", "")
            reply = HttpReply(status=response.status, retry_after_header=header, body=response.read())
        except (ConnectionResetError, BrokenPipeError) as error:
            connection.close()
            raise Stale(_reason(error)) from error
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoResponse(_reason(error)) from error
        if was_body_sent:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def _send_request(self, connection: HTTPConnection, path: str, content_type: str, body: bytes) -> bool:
        """Send the request. Return False if the server closed the connection while the body was being sent.

        The server may have answered before it closed, so the caller reads the response.
        """
        address = urlsplit(self.url)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": content_type, "Accept": "application/json"}
        try:
            connection.request("POST", address.path.rstrip("/") + path, body, headers)
        except (ConnectionResetError, BrokenPipeError):
            if connection.sock is None:
                raise
            return False
        return True


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# Retry schedule: exponential backoff with full jitter, up to a deadline.

FIRST_JITTER_SECONDS = 0.1
"""Upper bound of the random part of the first pause. The bound doubles with each attempt."""
MAX_JITTER_SECONDS = 10.0
"""Upper bound of the random part of every pause."""
MAX_RETRY_AFTER_SECONDS = 30.0
"""Longest wait in seconds that `Retry-After` can impose: a proxy that asks for an hour may be repaired sooner."""


@dataclass(slots=True, kw_only=True)
class RetryBudget:
    """Deadline of one `send`, and the pauses before its retries. Jitter keeps many clients from retrying together."""

    deadline: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    chance: Callable[[], float]
    attempts: int = 0

    def remaining(self) -> float:
        return self.deadline - self.clock()

    def pause(self, reason: str, retry_after: float = 0.0, status: int = 0) -> None:
        """Sleep before the next attempt: `retry_after` seconds (at most MAX_RETRY_AFTER_SECONDS), and random jitter.

        Raises Unanswered, with the reason and the status, if no time would be left for another attempt.
        """
        retry_after = min(retry_after, MAX_RETRY_AFTER_SECONDS)
        time_left = self.remaining() - retry_after
        if time_left < FIRST_JITTER_SECONDS:
            raise Unanswered(reason, retry_after=retry_after, status=status)
        jitter = self.chance() * min(
            time_left, MAX_JITTER_SECONDS, FIRST_JITTER_SECONDS * 2.0 ** min(self.attempts, 16)
        )
        self.attempts += 1
        self.sleep(retry_after + jitter)


def retry_after_seconds(header: str) -> float:
    """Parse a `Retry-After` header, a number or a date, into seconds. Return 0 for an empty or malformed header."""
    try:
        return max(0.0, float(header) if header.isdecimal() else _seconds_until(header))
    except (ValueError, TypeError):
        return 0.0


def _seconds_until(date: str) -> float:
    time = parsedate_to_datetime(date)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
