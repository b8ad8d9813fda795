"""Reserve the API port for one service, whose processes share it.

With SO_REUSEPORT the sockets of one system user share a port, and Linux spreads new connections over them. The kernel
does not check whether the programs belong together: two services could split the requests of one port without an
error. `reserve_port` prevents that. Only descendants of the process that reserved the port may call `join_port`.
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

BALANCES_CONNECTIONS = sys.platform == "linux"
"""Whether SO_REUSEPORT balances connections. Other kernels reject a second listener, or give it all connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    """A numeric address."""
    port: int


@contextmanager
def reserve_port(host: str, port: int) -> Iterator[Address]:
    """Reserve the port for this service inside the `with` block. Port 0 takes any free port.

    The reservation does not listen. The server of this process, or processes that call `join_port`, can then bind the
    port. Raises PortTaken or BadSetting.
    """
    with ExitStack() as stack:
        # Without SO_REUSEPORT this fails if any socket listens on the port, even one with SO_REUSEPORT.
        probe = stack.enter_context(_bound_socket(host, port, reuse_port=False))
        address = _address(probe)
        if BALANCES_CONNECTIONS:
            # Keep the probe bound. Otherwise, while none of our processes listens, the kernel could give the port to a
            # program that asks for any free port. Our processes can still bind the port, because the probe does not
            # listen and all set SO_REUSEADDR.
            stack.enter_context(_lock(address))
        else:
            # On other systems our own processes could not bind the port while the probe is bound.
            probe.close()
        yield address


@contextmanager
def join_port(host: str, port: int) -> Iterator[Address]:
    """Bind the port together with the other processes of this service. Raises PortTaken or BadSetting."""
    with _bound_socket(host, port, reuse_port=True) as bound:
        yield _address(bound)


def free_port(host: str, port: int) -> int:
    """Return the port if it is free, or any free port if it is 0. Raises PortTaken or BadSetting."""
    with reserve_port(host, port) as address:
        return address.port


def is_listening(port: int) -> bool:
    """Return whether this process listens on the port.

    A test connection cannot prove that, because another process of the service may accept it.
    """
    return any(_is_listener(int(number), port) for number in os.listdir("/dev/fd"))


def _is_listener(descriptor: int, port: int) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            is_tcp = copy.family in (socket.AF_INET, socket.AF_INET6) and copy.type == socket.SOCK_STREAM
            return is_tcp and _listens(copy) and copy.getsockname()[1] == port
    except OSError:  # the descriptor was closed meanwhile
        return False


def _listens(socket_: socket.socket) -> bool:
    return socket_.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


def _bound_socket(host: str, port: int, *, reuse_port: bool) -> socket.socket:
    family, address = _resolved(host, port)
    bound = socket.socket(family)
    # An earlier process's connections in TIME_WAIT must not block the port.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if reuse_port:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        if error.errno == EADDRINUSE:
            raise PortTaken(f"{address[1]} on {address[0]} is taken ({error.strerror}).") from error
        raise BadSetting(f"Can't listen on {address[0]}:{address[1]}: {error.strerror}.") from error
    return bound


def _lock(address: Address) -> socket.socket:
    """Keep other notifiers from reserving the port: their probe would succeed while none of our processes listens.

    The lock is an abstract UNIX socket. Its name belongs to the same network namespace as the port, and disappears
    with the socket.
    """
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0notifier:{address.host}:{address.port}")
    except OSError as error:
        lock.close()
        raise PortTaken(f"{address.port} on {address.host} is reserved by another notifier.") from error
    return lock


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise BadSetting(f"Unknown host: {host!r}.") from error
    return family, address


def _address(bound: socket.socket) -> Address:
    host, port = bound.getsockname()[:2]
    return Address(host=host, port=port)
