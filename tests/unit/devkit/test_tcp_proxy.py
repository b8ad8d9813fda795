"""The TCP proxy forwards bytes both ways and simulates network failures."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from notifier.devkit.tcp_proxy import TcpProxy


class Echo:
    """An echo server that remembers the received bytes."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.received = bytearray()
        self.changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                while chunk := connection.recv(1000):
                    with self.changed:
                        self.received += chunk
                        self.changed.notify_all()
                    connection.sendall(chunk)
            except OSError:
                return

    def has_received(self, content: bytes) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: content in self.received, timeout=10)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.listener.shutdown(socket.SHUT_RDWR)
    server.listener.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[TcpProxy]:
    tcp_proxy = TcpProxy(upstream=("127.0.0.1", echo.listener.getsockname()[1]))
    yield tcp_proxy
    tcp_proxy.close()


def connected(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def exchange(connection: socket.socket, content: bytes) -> bytes:
    """Send the content and return the response, empty if the connection broke."""
    try:
        connection.sendall(content)
        return connection.recv(1000)
    except OSError:
        return b""


def connect_and_exchange(proxy: TcpProxy, content: bytes) -> bytes:
    """Connect, send the content and return the response; connecting itself may fail."""
    try:
        with connected(proxy) as connection:
            return exchange(connection, content)
    except OSError:
        return b""


def test_bytes_are_forwarded_both_ways(proxy: TcpProxy) -> None:
    with connected(proxy) as first, connected(proxy) as second:
        assert (exchange(first, b"one"), exchange(second, b"other")) == (b"one", b"other")


def test_cut_breaks_connections_and_refuses_new_ones(proxy: TcpProxy) -> None:
    with connected(proxy) as connection:
        assert exchange(connection, b"before") == b"before"
        cutting = threading.Thread(target=proxy.cut, args=(2.0,))
        cutting.start()
        assert broken(connection)
        assert connect_and_exchange(proxy, b"meanwhile") == b""
        cutting.join()
    assert connect_and_exchange(proxy, b"after") == b"after"


def broken(connection: socket.socket) -> bool:
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_latency_delays_both_directions(proxy: TcpProxy) -> None:
    with connected(proxy) as connection:
        proxy.latency = 0.2
        began = time.monotonic()
        assert exchange(connection, b"slowly") == b"slowly"
        assert time.monotonic() - began >= 0.4


def test_request_arrives_although_its_response_is_lost(proxy: TcpProxy, echo: Echo) -> None:
    with connected(proxy) as connection:
        proxy.drops_responses = True
        connection.sendall(b"take it")
        assert echo.has_received(b"take it")
        deadline = time.monotonic() + 10
        while not proxy.dropped_bytes and time.monotonic() < deadline:
            time.sleep(0.01)
        proxy.drops_responses = False
        proxy.reset_all()
        assert proxy.dropped_bytes == len(b"take it")
        assert exchange(connection, b"again") == b""
    with connected(proxy) as second:
        assert exchange(second, b"again") == b"again"


def test_proxy_without_upstream_refuses_connections() -> None:
    proxy = TcpProxy()
    try:
        assert connect_and_exchange(proxy, b"early") == b""
    finally:
        proxy.close()
