"""Open connections without blocking: DNS look-up, connect to each address, TLS handshake."""

import os
import socket
import ssl
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from ipaddress import ip_address
from select import POLLIN, POLLOUT
from threading import Thread

from notifier.adapters.http2.limits import Origin

# DNS look-ups run in threads: they block for an unbounded time, while answers on other connections arrive.

Resolver = Callable[[str, int], Sequence[str]]
"""Function from host and port to IP addresses, best first.

Raises OSError if there is no address, or no allowed one. Its message is shown to operators.
"""


def addresses(host: str, port: int) -> Sequence[str]:
    """Resolve the name with the system's resolver. Raises OSError."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [*dict.fromkeys(str(address[0]) for *_, address in answers)]


class DnsLookups:
    """DNS look-ups, each in its own short-lived thread. Connections are few, and no look-up waits for another."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self.woken, self._waker = socket.socketpair()
        self.woken.setblocking(False)
        self._waker.setblocking(False)

    def start(self, host: str, port: int) -> "Future[Sequence[str]]":
        """Start a look-up. `woken` becomes readable when the result is available."""
        result: Future[Sequence[str]] = Future()
        Thread(target=self._resolve, args=(result, host, port), name=f"look-up of {host}", daemon=True).start()
        return result

    def clear_wakeup(self) -> None:
        with suppress(BlockingIOError):
            self.woken.recv(4096)

    def close(self) -> None:
        self.woken.close()
        self._waker.close()

    def _resolve(self, result: "Future[Sequence[str]]", host: str, port: int) -> None:
        try:
            result.set_result(self._resolver(host, port))
        except BaseException as error:  # the caller handles it
            result.set_exception(error)
        with suppress(OSError):  # a full buffer means that the reader is awake, a closed socket that there is no reader
            self._waker.send(b"\0")


SelectorEvents = int
"""Event mask of `poll` that a socket waits for; 0 while there is no socket."""


CONNECT_TIMED_OUT = "connection timed out"
INVALID_NAME = "invalid host name"


class PendingConnection:
    """Connection that is being opened without blocking. Each step runs when its socket is ready.

    A failure raises OSError with a message for operators.
    """

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None, lookups: DnsLookups, *, due: float) -> None:
        self.due = due
        self.socket: socket.socket | None = None
        self.wanted_events: SelectorEvents = 0
        self.ready = False
        self._origin, self._tls = origin, tls
        self._looking: Future[Sequence[str]] = lookups.start(origin.host, origin.port)
        self._steps = self._open()
        self._share = due

    def step(self, now: float) -> None:
        """Advance as far as possible without blocking; `ready` tells whether the connection is open. Raises OSError."""
        self._now = now
        self.wanted_events = next(self._steps, 0)
        if now >= self.due and not self.ready:
            raise TimeoutError(CONNECT_TIMED_OUT)

    def close(self) -> None:
        self._steps.close()
        if self.socket is not None:
            self.socket.close()

    def _open(self) -> Generator[SelectorEvents, None, None]:
        while not self._looking.done():
            yield 0
        hosts = self._resolved_hosts()
        first_error: OSError | ValueError | None = None
        for left in range(len(hosts), 0, -1):
            self._share = self._now + (self.due - self._now) / left
            try:
                yield from self._connect(hosts[-left])
                yield from self._handshake()
            except (OSError, ValueError) as error:
                first_error = first_error or error  # the first address is the best, so its error is reported
                self._drop()
                continue
            self.ready = True
            return
        raise _with_message(first_error)

    def _resolved_hosts(self) -> Sequence[str]:
        try:
            hosts = self._looking.result()
        except socket.gaierror as error:
            raise OSError(f"the host name does not resolve: {error.strerror}") from error
        except ValueError as error:
            raise OSError(INVALID_NAME) from error
        if not hosts:
            raise OSError("the host name does not resolve")
        return hosts

    def _connect(self, address: str) -> Iterator[SelectorEvents]:
        # ip_address raises ValueError for a host name, which would block on a look-up.
        family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
        self.socket = link = socket.socket(family, socket.SOCK_STREAM)
        link.setblocking(False)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(BlockingIOError):
            link.connect((address, self._origin.port))
            return
        while not self._writable(link):
            yield POLLOUT

    def _writable(self, link: socket.socket) -> bool:
        """Return whether the socket is connected. Raises OSError."""
        if error := link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, "")
        with suppress(OSError):
            return bool(link.getpeername())
        self._require_in_time()
        return False

    def _handshake(self) -> Iterator[SelectorEvents]:
        if self._tls is None or self.socket is None:
            return
        self.socket = link = self._tls.wrap_socket(
            self.socket, server_hostname=self._origin.host, do_handshake_on_connect=False
        )
        while True:
            try:
                link.do_handshake()
                break
            except ssl.SSLWantReadError:
                yield POLLIN
            except ssl.SSLWantWriteError:
                yield POLLOUT
            self._require_in_time()
        if link.selected_alpn_protocol() != "h2":
            raise OSError("the host does not support HTTP/2")

    def _require_in_time(self) -> None:
        if self._now >= self._share:
            raise TimeoutError(CONNECT_TIMED_OUT)

    def _drop(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def _with_message(error: OSError | ValueError | None) -> OSError:
    match error:
        case ssl.SSLCertVerificationError():
            return OSError(f"the certificate is not trusted: {error.verify_message}")
        case ssl.SSLError():
            return OSError(
                f"TLS failed: {error.reason or error.strerror or 'no reason given'}".replace("_", " ").lower()
            )
        case ConnectionRefusedError():
            return OSError("connection refused")
        case OSError(errno=int(number)):
            return OSError(f"can't connect: {os.strerror(number)}")
        case OSError():
            return error
        case _:
            return OSError(INVALID_NAME)
