"""Whom TLS trusts, and who speaks neither TLS nor HTTP/2: nothing is said to them, and it is told why."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from notifier.adapters.http2 import Http2Transport
from notifier.devkit.http2.server import serving
from notifier.domain.errors import BadSetting
from notifier.ports.push import Reply, Silence
from tests.contracts.single_post import exchange_one, not_sent, port
from tests.contracts.transports import RecordingHandler
from tests.support.test_ca import Authority


@contextmanager
def speaking(words: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that says something else to whoever connects."""

    def serve() -> None:
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            with one, suppress(OSError):
                words(one)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_clear_text_needs_to_be_allowed() -> None:
    handler = RecordingHandler()
    with serving(handler) as server:
        assert exchange_one(server.origin, clear=False) == not_sent(
            "it would be sent in clear text, which isn't allowed here"
        )
    assert handler.posts == []


def test_tls_trusts_the_authority_that_it_is_given_and_asks_for_the_name(tmp_path: Path) -> None:
    handler, authority = RecordingHandler(), Authority.made(tmp_path, "authority")
    with serving(handler, certificate=authority.server("push.example")) as server:
        origin = f"https://push.example:{port(server.origin)}"

        def ask(origin: str, authorities: Path | None) -> Reply | Silence:
            return exchange_one(origin, clear=False, authorities=authorities, resolver=lambda host, port: ["127.0.0.1"])

        assert ask(origin, authority.file) == Reply(status=200)
        assert ask(origin, None) == not_sent("its certificate isn't trusted: unable to get local issuer certificate")
        other = Authority.made(tmp_path, "other")
        assert isinstance(ask(origin, other.file), Silence)
        wrong = ask(f"https://other.example:{port(server.origin)}", authority.file)
        assert isinstance(wrong, Silence)
        assert not wrong.left
        assert "other.example" in wrong.reason
    assert [one.origin for one in handler.posts] == [origin]


def test_an_authority_that_cannot_be_read_is_a_bad_setting(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    for file in (tmp_path / "none.pem", tmp_path / "empty.pem"):
        with pytest.raises(BadSetting, match=file.name):
            Http2Transport(authorities=file)


def test_who_speaks_no_tls_or_no_http2_gets_nothing(tmp_path: Path) -> None:
    authority = Authority.made(tmp_path, "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server())
    context.set_alpn_protocols(["http/1.1"])

    def old(one: socket.socket) -> None:
        with context.wrap_socket(one, server_side=True) as link:
            assert link.recv(10) == b""

    with speaking(old) as place:
        assert exchange_one(f"https://127.0.0.1:{place}", authorities=authority.file) == not_sent(
            "it doesn't speak HTTP/2"
        )

    def plain(one: socket.socket) -> None:
        one.recv(10)
        one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with speaking(plain) as place:
        answer = exchange_one(f"https://127.0.0.1:{place}", authorities=authority.file)
        assert isinstance(answer, Silence)
        assert not answer.left
        assert answer.reason.startswith("tls failed")


def test_who_answers_in_another_language_is_told_of(tmp_path: Path) -> None:
    def old(one: socket.socket) -> None:
        one.recv(1_000)
        one.sendall(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")

    with speaking(old) as place:
        answer = exchange_one(f"http://127.0.0.1:{place}")
        assert isinstance(answer, Silence)
        assert answer.reason.startswith("it doesn't keep to HTTP/2")
