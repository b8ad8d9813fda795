"""TLS in front of a server that knows none: a thread for each direction of each connection."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BACKLOG = 64


@contextmanager
def terminating(certificate: Path, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """The port at which TLS is spoken while the block lasts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server((host, 0), backlog=BACKLOG) as listening:
        threading.Thread(target=_accepting, args=(listening, context, (host, port)), daemon=True).start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def _accepting(listening: socket.socket, context: ssl.SSLContext, to: tuple[str, int]) -> None:
    with suppress(OSError):  # it was closed
        while True:
            threading.Thread(target=_serving, args=(listening.accept()[0], context, to), daemon=True).start()


def _serving(plain: socket.socket, context: ssl.SSLContext, to: tuple[str, int]) -> None:
    """A stranger's first bytes may be anything: who doesn't speak TLS is cut off."""
    with (
        plain,
        suppress(OSError),
        context.wrap_socket(plain, server_side=True) as client,
        socket.create_connection(to) as server,
    ):
        back = threading.Thread(target=_copying, args=(server, client), daemon=True)
        back.start()
        _copying(client, server)
        back.join()


def _copying(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
