"""The wire: HTTP/1.1 requests over connections that are kept."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from notifier.client.errors import InvalidClientSetting, Unanswered


class NoResponse(Exception):
    """The request may have arrived, and may not."""


class Stale(NoResponse):
    """The other side broke the connection off, as it does with one that was idle for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    status: int
    retry_after: str
    """As the header has it, or empty."""
    body: bytes


@dataclass(slots=True)
class HttpConnections:
    """For any number of threads: each request has a connection to itself. The first request opens the first one."""

    url: str
    key: str = field(repr=False)
    _: KW_ONLY
    _kept: list[HTTPConnection] = field(default_factory=list, init=False, repr=False)
    """Lists are safe to push and pop from several threads."""

    def __post_init__(self) -> None:
        """Raises BadSetting, so that no request has to."""
        try:
            place = urlsplit(self.url)
            usable = place.scheme in ("http", "https") and place.hostname and place.port != 0
        except ValueError:
            usable = False
        if not usable or not _printable(self.url) or " " in self.url:
            raise InvalidClientSetting(f"The address {self.url!r} is not like https://notifier.example.")
        if not self.key or not _printable(self.key):
            raise InvalidClientSetting(
                "The key is empty, or has characters that no key has, perhaps the end of a line."
            )

    def post(self, path: str, kind: str, body: bytes, within: float) -> HttpReply:
        """`within` bounds each single wait for the other side, in seconds. Raises NoAnswer."""
        if self._kept:
            # The service may have closed it while nothing was said, which means nothing: at once again on a new one.
            with suppress(Stale, IndexError):
                return self._exchange(self._kept.pop(), path, kind, body, within)
        return self._exchange(self._new(), path, kind, body, within)

    def close(self) -> None:
        """Closes what is idle; the next request opens a connection again."""
        with suppress(IndexError):
            while True:
                self._kept.pop().close()

    def _new(self) -> HTTPConnection:
        place = urlsplit(self.url)
        kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
        return kind(place.hostname or "", place.port)

    def _exchange(self, connection: HTTPConnection, path: str, kind: str, body: bytes, within: float) -> HttpReply:
        connection.timeout = within
        if connection.sock:
            connection.sock.settimeout(within)
        try:
            whole = self._ask(connection, path, kind, body)
            answer = connection.getresponse()
            later = answer.headers.get("Retry-After", "")
            reply = HttpReply(status=answer.status, retry_after=later, body=answer.read())
        except (ConnectionResetError, BrokenPipeError) as error:
            connection.close()
            raise Stale(_words(error)) from error
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoResponse(_words(error)) from error
        if whole:
            self._kept.append(connection)
        else:
            connection.close()
        return reply

    def _ask(self, connection: HTTPConnection, path: str, kind: str, body: bytes) -> bool:
        """False when the other side stopped listening: a refusal may be sent before the body was read."""
        place = urlsplit(self.url)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": kind, "Accept": "application/json"}
        try:
            connection.request("POST", place.path.rstrip("/") + path, body, headers)
        except (ConnectionResetError, BrokenPipeError):
            if connection.sock is None:
                raise
            return False
        return True


def _printable(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# Patience: how long to wait before the next try, and when to give up.

FIRST = 0.1
"""Seconds: the first pause is at most this long, each later one twice as long as the one before."""
LONGEST = 10.0
"""The service asks for one second when it is restarted and ten when its disk is full."""
LONGEST_ASKED = 30.0
"""Whatever `Retry-After` says: a proxy that says an hour would be believed for an hour after it is mended."""


@dataclass(slots=True, kw_only=True)
class RetryBudget:
    """Of one call. Pauses are random from nothing up ("full jitter"), so that many callers don't come back together."""

    deadline: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    chance: Callable[[], float]
    """From 0 up to 1."""
    tries: int = 0

    def left(self) -> float:
        return self.deadline - self.clock()

    def pause(self, why: str, asked: float = 0.0, status: int = 0) -> None:
        """`asked` is the least it waits, `status` what was answered.

        Raises Unanswered when no time would be left for another try.
        """
        asked = min(asked, LONGEST_ASKED)
        spare = self.left() - asked
        if spare < FIRST:
            raise Unanswered(why, asked=asked, status=status)
        jitter = self.chance() * min(spare, LONGEST, FIRST * 2.0 ** min(self.tries, 16))
        self.tries += 1
        self.sleep(asked + jitter)


def asked_for(said: str) -> float:
    """Seconds, from a `Retry-After` in either of its spellings; 0 when it says nothing that can be read."""
    try:
        return max(0.0, float(said) if said.isdecimal() else _until(said))
    except (ValueError, TypeError):
        return 0.0


def _until(date: str) -> float:
    moment = parsedate_to_datetime(date)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
