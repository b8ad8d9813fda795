"""Names to addresses, aside: a look-up blocks for as long as it likes, and answers to what was sent come meanwhile."""

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread

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
