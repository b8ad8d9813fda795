"""The port of the API: reserved by one service, and shared by the API processes of that service.

With SO_REUSEPORT the sockets of one user share a port, and Linux spreads new connections over them. The kernel does not
ask whether their programs belong together, so two services could split the requests of one port without an error.
`reserved` prevents that, and `joined` is for a process that was started by the one that holds the reservation.
"""

import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from errno import EADDRINUSE
from typing import Any

from notifier.domain.errors import BadSetting, PortTaken

SHARED_EVENLY = sys.platform == "linux"
"""Elsewhere SO_REUSEPORT either refuses a second listener or gives it all connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    """A numeric address."""
    port: int


@contextmanager
def reserved(host: str, port: int) -> Iterator[Address]:
    """Keep the port for this service while the block lasts; 0 takes any free port. Raises PortTaken or BadSetting.

    Only processes that `joined` it should listen. The reservation itself never listens and answers nothing.
    """
    with ExitStack() as stack:
        # This socket does not ask to share, so it finds every program that listens, whatever that one asked for.
        probe = stack.enter_context(_bound(host, port, shared=False))
        address = _address(probe)
        if SHARED_EVENLY:
            # Kept bound: the port is not given to another program while no process of ours listens yet, or any more.
            stack.enter_context(_lock(address))
        else:
            # A process of ours could not bind beside it.
            probe.close()
        yield address


@contextmanager
def joined(host: str, port: int) -> Iterator[Address]:
    """Bind the port beside the other processes of this service. Raises PortTaken or BadSetting."""
    with _bound(host, port, shared=True) as held:
        yield _address(held)


def free_port(host: str, port: int) -> int:
    """Return the port, or any free one for 0. Raises PortTaken or BadSetting."""
    with reserved(host, port) as address:
        return address.port


def is_listening(port: int) -> bool:
    """Return whether this process listens on the port.

    A connection would not tell: another process of the service may answer it.
    """
    return any(_is_listener(int(number), port) for number in os.listdir("/dev/fd"))


def _is_listener(descriptor: int, port: int) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            is_tcp = copy.family in (socket.AF_INET, socket.AF_INET6) and copy.type == socket.SOCK_STREAM
            return is_tcp and _accepts(copy) and copy.getsockname()[1] == port
    except OSError:  # closed meanwhile, by another thread
        return False


def _accepts(one: socket.socket) -> bool:
    return one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


def _bound(host: str, port: int, *, shared: bool) -> socket.socket:
    family, place = _resolved(host, port)
    bound = socket.socket(family)
    # Connections of an earlier process that are still in TIME_WAIT must not keep the port from us.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind(place)
    except OSError as error:
        bound.close()
        if error.errno == EADDRINUSE:
            raise PortTaken(f"It is {place[1]} on {place[0]} ({error.strerror}).") from error
        raise BadSetting(f"It can't listen on {place[0]}:{place[1]}: {error.strerror}.") from error
    return bound


def _lock(address: Address) -> socket.socket:
    """Exclude other notifiers, also in the moments in which nobody listens and the probe finds nothing.

    An abstract UNIX socket: its name lives in the same network namespace as the port, and ends with its process.
    """
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0notifier:{address.host}:{address.port}")
    except OSError as error:
        lock.close()
        raise PortTaken(f"It is {address.port} on {address.host}, reserved by another notifier.") from error
    return lock


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise BadSetting(f"There is no host {host!r}.") from error
    return family, place


def _address(bound: socket.socket) -> Address:
    host, port = bound.getsockname()[:2]
    return Address(host=host, port=port)
