"""Open connections without blocking: DNS look-up, connect, TLS handshake."""

import os
import socket
import ssl
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from ipaddress import ip_address
from select import POLLIN, POLLOUT
from threading import Thread

from notifier.adapters.http2.request import Origin

Resolver = Callable[[str, int], Sequence[str]]
"""Function from host and port to IP addresses, best first. Raises OSError or ValueError."""


def resolve_addresses(host: str, port: int) -> Sequence[str]:
    """Resolve the name with the system's resolver. Raises OSError, or ValueError for an invalid name."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [*dict.fromkeys(str(address[0]) for *_, address in infos)]


class DnsLookups:
    """DNS look-ups, each in its own thread, because a look-up blocks and has no timeout."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self.wakeup_socket, self._wakeup_sender = socket.socketpair()
        self.wakeup_socket.setblocking(False)
        self._wakeup_sender.setblocking(False)

    def start(self, host: str, port: int) -> "Future[Sequence[str]]":
        """Start a look-up. `wakeup_socket` becomes readable when the result is available."""
        result: Future[Sequence[str]] = Future()
        Thread(target=self._resolve, args=(result, host, port), name=f"look-up of {host}", daemon=True).start()
        return result

    def clear_wakeup(self) -> None:
        with suppress(BlockingIOError):
            self.wakeup_socket.recv(4096)

    def close(self) -> None:
        self.wakeup_socket.close()
        self._wakeup_sender.close()

    def _resolve(self, result: "Future[Sequence[str]]", host: str, port: int) -> None:
        try:
            result.set_result(self._resolver(host, port))
        except BaseException as error:
            result.set_exception(error)
        with suppress(OSError):  # a full buffer: the reader will wake up anyway; a closed socket: there is no reader
            self._wakeup_sender.send(b"\0")


PollEvents = int
"""Event mask of `poll`; 0 for no events."""


CONNECT_TIMED_OUT = "connection timed out"
INVALID_NAME = "invalid host name"


class PendingConnection:
    """Connection that is being opened without blocking. The caller calls `step` until `is_open` is set."""

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None, lookups: DnsLookups, *, deadline: float) -> None:
        self.deadline = deadline
        self.socket: socket.socket | None = None
        self.wanted_events: PollEvents = 0
        self.is_open = False
        self._origin, self._tls = origin, tls
        self._lookup: Future[Sequence[str]] = lookups.start(origin.host, origin.port)
        self._steps = self._open()
        self._address_deadline = deadline

    def step(self, now: float) -> None:
        """Advance as far as possible without blocking. Raises OSError with a message for operators."""
        self._now = now
        self.wanted_events = next(self._steps, 0)
        if now >= self.deadline and not self.is_open:
            raise TimeoutError(CONNECT_TIMED_OUT)

    def close(self) -> None:
        self._steps.close()
        if self.socket is not None:
            self.socket.close()

    def _open(self) -> Generator[PollEvents, None, None]:
        while not self._lookup.done():
            yield 0
        addresses = self._resolved_addresses()
        first_error: OSError | ValueError | None = None
        for remaining_address_count in range(len(addresses), 0, -1):
            self._address_deadline = self._now + (self.deadline - self._now) / remaining_address_count
            try:
                yield from self._connect(addresses[-remaining_address_count])
                yield from self._handshake()
            except (OSError, ValueError) as error:
                first_error = first_error or error  # the first address is the best, so its error is reported
                self._close_socket()
                continue
            self.is_open = True
            return
        raise _operator_error(first_error)

    def _resolved_addresses(self) -> Sequence[str]:
        try:
            addresses = self._lookup.result()
        except socket.gaierror as error:
            raise OSError(f"the host name does not resolve: {error.strerror}") from error
        except ValueError as error:
            raise OSError(INVALID_NAME) from error
        if not addresses:
            raise OSError("the host name does not resolve")
        return addresses

    def _connect(self, address: str) -> Iterator[PollEvents]:
        # ip_address raises ValueError for a host name: connecting to a name would block until it is looked up.
        family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
        self.socket = sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(BlockingIOError):
            sock.connect((address, self._origin.port))
            return
        while not self._is_connected(sock):
            yield POLLOUT

    def _is_connected(self, sock: socket.socket) -> bool:
        """Return whether the socket is connected. Raises OSError if the connect failed or timed out."""
        if error := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, "")
        with suppress(OSError):
            return bool(sock.getpeername())
        self._require_time_left()
        return False

    def _handshake(self) -> Iterator[PollEvents]:
        if self._tls is None or self.socket is None:
            return
        self.socket = sock = self._tls.wrap_socket(
            self.socket, server_hostname=self._origin.host, do_handshake_on_connect=False
        )
        while True:
            try:
                sock.do_handshake()
                break
            except ssl.SSLWantReadError:
                yield POLLIN
            except ssl.SSLWantWriteError:
                yield POLLOUT
            self._require_time_left()
        if sock.selected_alpn_protocol() != "h2":
            raise OSError("the host does not support HTTP/2")

    def _require_time_left(self) -> None:
        if self._now >= self._address_deadline:
            raise TimeoutError(CONNECT_TIMED_OUT)

    def _close_socket(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def _operator_error(error: OSError | ValueError | None) -> OSError:
    match error:
        case ssl.SSLCertVerificationError():
            return OSError(f"the certificate is not trusted: {error.verify_message}")
        case ssl.SSLError():
            return OSError(
                f"TLS failed: {error.reason or error.strerror or 'no reason given'}".replace("_", " ").lower()
            )
        case ConnectionRefusedError():
            return OSError("connection refused")
        case OSError(errno=int(code)):
            return OSError(f"can't connect: {os.strerror(code)}")
        case OSError():
            return error
        case _:
            return OSError(INVALID_NAME)
