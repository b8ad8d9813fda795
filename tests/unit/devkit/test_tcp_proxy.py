"""The proxy before an engine: it carries bytes both ways, until it is told to fail as a network does."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from notifier.devkit.tcp_proxy import Proxy


class Echo:
    """Answers with what it was told, and remembers it."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.told = bytearray()
        self.changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(one,), daemon=True).start()

    def _answer(self, one: socket.socket) -> None:
        with one:
            try:
                while piece := one.recv(1000):
                    with self.changed:
                        self.told += piece
                        self.changed.notify_all()
                    one.sendall(piece)
            except OSError:
                return

    def heard(self, words: bytes) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: words in self.told, timeout=10)


@pytest.fixture
def echo() -> Iterator[Echo]:
    found = Echo()
    yield found
    found.listener.shutdown(socket.SHUT_RDWR)
    found.listener.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    found = Proxy(upstream=("127.0.0.1", echo.listener.getsockname()[1]))
    yield found
    found.close()


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def asked(one: socket.socket, words: bytes) -> bytes:
    """Empty when the connection broke."""
    try:
        one.sendall(words)
        return one.recv(1000)
    except OSError:
        return b""


def let_through(proxy: Proxy, words: bytes) -> bytes:
    """Who is thrown out at once may not even have been let in."""
    try:
        with connected(proxy) as one:
            return asked(one, words)
    except OSError:
        return b""


def test_what_is_said_arrives_and_is_answered(proxy: Proxy) -> None:
    with connected(proxy) as one, connected(proxy) as other:
        assert (asked(one, b"one"), asked(other, b"other")) == (b"one", b"other")


def test_a_cut_breaks_what_is_connected_and_lets_nobody_through_until_it_is_over(proxy: Proxy) -> None:
    with connected(proxy) as before:
        assert asked(before, b"before") == b"before"
        cutting = threading.Thread(target=proxy.cut, args=(1.0,))
        cutting.start()
        assert broken(before)
        assert let_through(proxy, b"meanwhile") == b""
        cutting.join()
    assert let_through(proxy, b"after") == b"after"


def broken(one: socket.socket) -> bool:
    try:
        return one.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_a_slow_network_answers_late_and_completely(proxy: Proxy) -> None:
    with connected(proxy) as one:
        proxy.latency = 0.2
        began = time.monotonic()
        assert asked(one, b"slowly") == b"slowly"
        assert time.monotonic() - began >= 0.4


def test_a_lost_answer_is_one_to_a_question_that_arrived(proxy: Proxy, echo: Echo) -> None:
    with connected(proxy) as one:
        proxy.answers_lost = True
        one.sendall(b"take it")
        assert echo.heard(b"take it")
        deadline = time.monotonic() + 10
        while not proxy.swallowed and time.monotonic() < deadline:
            time.sleep(0.01)
        proxy.answers_lost = False
        proxy.sever()
        assert proxy.swallowed == len(b"take it")
        assert asked(one, b"again") == b""
    with connected(proxy) as other:
        assert asked(other, b"again") == b"again"


def test_before_it_knows_to_whom_it_lets_nobody_through() -> None:
    proxy = Proxy()
    try:
        assert let_through(proxy, b"early") == b""
    finally:
        proxy.close()
