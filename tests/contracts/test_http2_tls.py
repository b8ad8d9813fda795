"""TLS trust, and servers without TLS or HTTP/2: no post is sent."""

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
from notifier.ports.push import NoReply, Reply
from tests.contracts.http2_transports import RecordingHandler
from tests.contracts.one_http2_request import exchange_one, not_sent, port
from tests.support.certificate_authority import Authority


@contextmanager
def raw_server(handle: Callable[[socket.socket], None]) -> Iterator[int]:
    """Run a server that handles each connection with the given function."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                handle(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_clear_text_needs_permission() -> None:
    handler = RecordingHandler()
    with serving(handler) as server:
        assert exchange_one(server.origin, clear=False) == not_sent("plain-text HTTP is not allowed here")
    assert handler.posts == []


def test_tls_verifies_authority_and_host_name(tmp_path: Path) -> None:
    handler, authority = RecordingHandler(), Authority.create(tmp_path, "authority")
    with serving(handler, certificate=authority.server("push.example")) as server:
        origin = f"https://push.example:{port(server.origin)}"

        def send(origin: str, authorities: Path | None) -> Reply | NoReply:
            return exchange_one(origin, clear=False, authorities=authorities, resolver=lambda host, port: ["127.0.0.1"])

        assert send(origin, authority.file) == Reply(status=200)
        assert send(origin, None) == not_sent("the certificate is not trusted: unable to get local issuer certificate")
        other_authority = Authority.create(tmp_path, "other")
        assert isinstance(send(origin, other_authority.file), NoReply)
        answer = send(f"https://other.example:{port(server.origin)}", authority.file)
        assert isinstance(answer, NoReply)
        assert not answer.may_have_arrived
        assert "other.example" in answer.reason
    assert [request.origin for request in handler.posts] == [origin]


def test_unreadable_authority_is_a_bad_setting(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    for file in (tmp_path / "none.pem", tmp_path / "empty.pem"):
        with pytest.raises(BadSetting, match=file.name):
            Http2Transport(ca_file=file)


def test_server_without_tls_or_http2_receives_no_post(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path, "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server())
    context.set_alpn_protocols(["http/1.1"])

    def http1_server(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            assert tls.recv(10) == b""

    with raw_server(http1_server) as port_:
        assert exchange_one(f"https://127.0.0.1:{port_}", authorities=authority.file) == not_sent(
            "the host does not support HTTP/2"
        )

    def plain_http_server(connection: socket.socket) -> None:
        connection.recv(10)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with raw_server(plain_http_server) as port_:
        answer = exchange_one(f"https://127.0.0.1:{port_}", authorities=authority.file)
        assert isinstance(answer, NoReply)
        assert not answer.may_have_arrived
        assert answer.reason.startswith("tls failed")


def test_http1_answer_is_reported(tmp_path: Path) -> None:
    def http1_server(connection: socket.socket) -> None:
        connection.recv(1_000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")

    with raw_server(http1_server) as port_:
        answer = exchange_one(f"http://127.0.0.1:{port_}")
        assert isinstance(answer, NoReply)
        assert answer.reason.startswith("HTTP/2 protocol violation")
