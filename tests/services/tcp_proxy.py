"""A TCP proxy that can end TLS, fall silent and lose its connections."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BACKLOG = 64


class TcpProxy:
    """Forwards connections to `upstream`. With a certificate, clients must use TLS, and the server gets plain text."""

    def __init__(self, listener: socket.socket, upstream: tuple[str, int], certificate: Path | None) -> None:
        self.port = int(listener.getsockname()[1])
        self._listener, self._upstream = listener, upstream
        self._context: ssl.SSLContext | None = None
        if certificate:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)
        self._sockets: set[socket.socket] = set()
        self._forwards = threading.Event()
        self._forwards.set()

    def accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def freeze(self) -> None:
        """Forward nothing more, as if the server had been stopped."""
        self._forwards.clear()

    def disconnect(self) -> None:
        """Lose all connections, and what they have not forwarded. New connections work."""
        for connection in list(self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._sockets.clear()
        self._forwards.set()

    def _serve(self, connection: socket.socket) -> None:
        """The first bytes of a client may be anything; a client without TLS is disconnected."""
        with connection, suppress(OSError):
            client = self._context.wrap_socket(connection, server_side=True) if self._context else connection
            with client, socket.create_connection(self._upstream) as server:
                self._sockets |= {client, server}
                reverse = threading.Thread(target=self._copy, args=(server, client), daemon=True)
                reverse.start()
                self._copy(client, server)
                reverse.join()
                self._sockets -= {client, server}

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._forwards.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@contextmanager
def tcp_proxy(port: int, host: str = "127.0.0.1", certificate: Path | None = None) -> Iterator[TcpProxy]:
    """Yield a proxy that accepts connections while the block lasts."""
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
        proxy = TcpProxy(listener, (host, port), certificate)
        threading.Thread(target=proxy.accept, daemon=True).start()
        try:
            yield proxy
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            proxy.disconnect()
