"""A connection that is being opened: its name looked up, one address after another tried, and TLS spoken."""

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

# Names to addresses, aside: a look-up blocks for as long as it likes, and answers to what was sent come meanwhile.

Resolver = Callable[[str, int], Sequence[str]]
"""Host and port to the IP addresses to connect to, best first. Raises OSError where there is none, or none that is
allowed; its words are told to people."""


def addresses(host: str, port: int) -> Sequence[str]:
    """Whatever the system says of the name."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [*dict.fromkeys(str(place[0]) for *_, place in found)]


class Lookups:
    """Each in a thread of its own, which ends with it: connections are few, and none waits for another's name."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self.woken, self._waker = socket.socketpair()
        self.woken.setblocking(False)
        self._waker.setblocking(False)

    def ask(self, host: str, port: int) -> "Future[Sequence[str]]":
        """`woken` can be read once it is there."""
        found: Future[Sequence[str]] = Future()
        Thread(target=self._look, args=(found, host, port), name=f"look-up of {host}", daemon=True).start()
        return found

    def heard(self) -> None:
        with suppress(BlockingIOError):
            self.woken.recv(4096)

    def close(self) -> None:
        self.woken.close()
        self._waker.close()

    def _look(self, found: "Future[Sequence[str]]", host: str, port: int) -> None:
        try:
            found.set_result(self._resolver(host, port))
        except BaseException as error:  # it is the caller's to judge
            found.set_exception(error)
        with suppress(OSError):  # full, so that it is awake, or closed, so that nobody waits
            self._waker.send(b"\0")


Wanted = int
"""What a socket waits for, as `poll` has it; 0 while there is none."""


LATE = "it couldn't be reached in time"
NO_NAME = "its name isn't one that can be reached"


class PendingConnection:
    """Goes on when its socket is ready; blocks nowhere. It has failed when OSError is raised, in words for people."""

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None, lookups: Lookups, *, due: float) -> None:
        self.due = due
        self.socket: socket.socket | None = None
        self.wanted: Wanted = 0
        self.ready = False
        self._origin, self._tls = origin, tls
        self._looking: Future[Sequence[str]] = lookups.ask(origin.host, origin.port)
        self._steps = self._open()
        self._share = due

    def step(self, now: float) -> None:
        """As far as it gets; `ready` says whether it is there. Raises OSError."""
        self._now = now
        self.wanted = next(self._steps, 0)
        if now >= self.due and not self.ready:
            raise TimeoutError(LATE)

    def close(self) -> None:
        self._steps.close()
        if self.socket is not None:
            self.socket.close()

    def _open(self) -> Generator[Wanted, None, None]:
        while not self._looking.done():
            yield 0
        places = self._found()
        failed: OSError | ValueError | None = None
        for left in range(len(places), 0, -1):
            self._share = self._now + (self.due - self._now) / left
            try:
                yield from self._connect(places[-left])
                yield from self._greet()
            except (OSError, ValueError) as error:
                failed = failed or error  # the first address is the best one
                self._drop()
                continue
            self.ready = True
            return
        raise _told(failed)

    def _found(self) -> Sequence[str]:
        try:
            places = self._looking.result()
        except socket.gaierror as error:
            raise OSError(f"its name doesn't resolve: {error.strerror}") from error
        except ValueError as error:
            raise OSError(NO_NAME) from error
        if not places:
            raise OSError("its name doesn't resolve")
        return places

    def _connect(self, address: str) -> Iterator[Wanted]:
        family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET  # a name would be looked up
        self.socket = link = socket.socket(family, socket.SOCK_STREAM)
        link.setblocking(False)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(BlockingIOError):
            link.connect((address, self._origin.port))
            return
        while not self._writable(link):
            yield POLLOUT

    def _writable(self, link: socket.socket) -> bool:
        """Whether it is connected. Raises OSError."""
        if error := link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, "")
        with suppress(OSError):
            return bool(link.getpeername())
        self._in_time()
        return False

    def _greet(self) -> Iterator[Wanted]:
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
            self._in_time()
        if link.selected_alpn_protocol() != "h2":
            raise OSError("it doesn't speak HTTP/2")

    def _in_time(self) -> None:
        if self._now >= self._share:
            raise TimeoutError(LATE)

    def _drop(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def _told(error: OSError | ValueError | None) -> OSError:
    match error:
        case ssl.SSLCertVerificationError():
            return OSError(f"its certificate isn't trusted: {error.verify_message}")
        case ssl.SSLError():
            return OSError(
                f"TLS failed: {error.reason or error.strerror or 'no reason given'}".replace("_", " ").lower()
            )
        case ConnectionRefusedError():
            return OSError("it refuses connections")
        case OSError(errno=int(number)):
            return OSError(f"it can't be reached: {os.strerror(number)}")
        case OSError():
            return error
        case _:
            return OSError(NO_NAME)
