"""HTTP/2 and HTTP/1.1 test server on the loopback, in its own thread."""

import asyncio
import ssl
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from notifier.adapters.http2.frames import PREFACE
from notifier.devkit.http2.connection import Http2Behavior, RequestHandler, ServerConnection, ServerCounts, ServerState
from notifier.devkit.http2.http1_connection import Http1

# Detection of the HTTP version, by ALPN or by the first bytes.

HTTP2_PREFIX = PREFACE[:4]
"""`PRI `, which is not a method of HTTP/1.1."""


class VersionDetection(asyncio.Protocol):
    """A connection whose HTTP version is unknown. ServerCounts do not include it yet."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._switch_to(ServerConnection(self._server))
        else:
            self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received.startswith(HTTP2_PREFIX):
            self._switch_to(ServerConnection(self._server))
        elif not HTTP2_PREFIX.startswith(self._received):
            self._switch_to(Http1(self._server))

    def send_settings_now(self) -> None:
        """Do nothing: the HTTP version is not known yet."""

    def abort(self) -> None:
        self._transport.abort()

    def _switch_to(self, connection: ServerConnection | Http1) -> None:
        self._server.connections.discard(self)
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        if self._received:
            connection.data_received(self._received)


HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Server:
    origin: str
    """URL of the server, for HTTP/2 and HTTP/1.1 clients."""
    _state: ServerState
    _loop: asyncio.AbstractEventLoop

    @property
    def counts(self) -> ServerCounts:
        return self._state.counts

    @property
    def is_serving(self) -> bool:
        return self._loop.is_running()

    def behave(self, behavior: Http2Behavior) -> None:
        """Change the behavior of all connections, and send the new SETTINGS on existing ones."""

        async def change() -> None:
            self._state.behavior = behavior
            for connection in self._state.connections:
                connection.send_settings_now()

        asyncio.run_coroutine_threadsafe(change(), self._loop).result()

    def cut(self) -> None:

        async def cut() -> None:
            for connection in [*self._state.connections]:
                connection.abort()

        asyncio.run_coroutine_threadsafe(cut(), self._loop).result()


@contextmanager
def serving(
    handler: RequestHandler,
    behavior: Http2Behavior = Http2Behavior(),
    *,
    certificate: Path | None = None,
    port: int = 0,
) -> Iterator[Http2Server]:
    """Run a server until the block ends. Its thread calls `handler`.

    With `certificate`, a PEM file that includes the key, the server uses TLS.
    """
    state = ServerState(handler=handler, behavior=behavior)
    port_future: Future[int] = Future()
    loop = asyncio.new_event_loop()
    stopping = asyncio.Event()
    serve = _serve(state, certificate, stopping, port_future, port=port)
    thread = Thread(target=_run, args=(loop, serve, port_future), name="http2-server", daemon=True)
    thread.start()
    try:
        scheme = "https" if certificate else "http"
        yield Http2Server(origin=f"{scheme}://{HOST}:{port_future.result()}", _state=state, _loop=loop)
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stopping.set)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop, serve: Coroutine[Any, Any, None], port_future: "Future[int]") -> None:
    try:
        loop.run_until_complete(serve)
    except BaseException as error:
        if port_future.done():
            raise
        port_future.set_exception(error)
    finally:
        loop.close()


async def _serve(
    state: ServerState, certificate: Path | None, stopping: asyncio.Event, port_future: "Future[int]", *, port: int
) -> None:
    loop = asyncio.get_running_loop()
    context = tls_context(certificate) if certificate else None
    server = await loop.create_server(lambda: VersionDetection(state), HOST, port, ssl=context)
    try:
        port_future.set_result(server.sockets[0].getsockname()[1])
        await stopping.wait()
    finally:
        # Stop accepting first: `close` fails connections that are just being accepted, and leaks their sockets.
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        await _wait_for_accepting()
        server.close()
        for connection in [*state.connections]:
            connection.abort()
        await server.wait_closed()
        await asyncio.sleep(0)  # lets the event loop close the sockets of aborted connections


async def _wait_for_accepting() -> None:
    """Wait until connections that are just being accepted are registered, so that they can be aborted."""
    if accepting := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(accepting, timeout=1.0)


def tls_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context
