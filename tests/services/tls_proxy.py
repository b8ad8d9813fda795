"""TLS termination for a server without TLS: one thread per direction and connection."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BACKLOG = 64


@contextmanager
def tls_proxy(certificate: Path, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """Yield the port that accepts TLS connections while the block lasts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server((host, 0), backlog=BACKLOG) as listener:
        threading.Thread(target=_accept, args=(listener, context, (host, port)), daemon=True).start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, context: ssl.SSLContext, upstream: tuple[str, int]) -> None:
    with suppress(OSError):  # the listener was closed
        while True:
            threading.Thread(target=_serve, args=(listener.accept()[0], context, upstream), daemon=True).start()


def _serve(connection: socket.socket, context: ssl.SSLContext, upstream: tuple[str, int]) -> None:
    """The first bytes of a client may be anything; a client without TLS is disconnected."""
    with (
        connection,
        suppress(OSError),
        context.wrap_socket(connection, server_side=True) as client,
        socket.create_connection(upstream) as server,
    ):
        reverse = threading.Thread(target=_copy, args=(server, client), daemon=True)
        reverse.start()
        _copy(client, server)
        reverse.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
