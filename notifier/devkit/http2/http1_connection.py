"""HTTP/1.1 connection of the test server, for clients without HTTP/2."""

import asyncio
from dataclasses import replace
from http import HTTPStatus

from notifier.devkit.http2.connection import ServerState
from notifier.devkit.http2.streams import MAX_BODY_BYTES
from notifier.ports.push import NoReply, Post, Reply

HEADER_END = b"\r\n\r\n"
STATUS_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Http1(asyncio.Protocol):
    """One HTTP/1.1 connection. It supports `latency`, `never_responds`, `goaway_after` and `cut_after`.

    A NoReply closes the connection, because HTTP/1.1 cannot refuse a single request without a response.
    """

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._received = bytearray()
        self._processed_requests = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        self._server.counts.connections += 1
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            while (post := self._next_request()) is not None:
                self._respond(post)
        except ValueError:
            self._server.counts.violations += 1
            self._transport.close()

    def send_settings_now(self) -> None:
        """Do nothing: HTTP/1.1 has no settings."""

    def abort(self) -> None:
        self._transport.abort()

    def _next_request(self) -> Post | None:
        """Return the next request, or None if it is incomplete. Raises ValueError if it is malformed."""
        header_block, separator, _ = self._received.partition(HEADER_END)
        if not separator and len(header_block) <= MAX_BODY_BYTES:
            return None
        request_line, *lines = header_block.decode("latin-1").split("\r\n")
        _, path, _ = request_line.split(" ")
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        by_name = dict(headers)
        size = int(by_name.get("content-length", "0"))
        if not 0 <= size <= MAX_BODY_BYTES:
            raise ValueError("invalid or too large content-length")
        body_start = len(header_block) + len(HEADER_END)
        if len(self._received) < body_start + size:
            return None
        body = bytes(self._received[body_start : body_start + size])
        del self._received[: body_start + size]
        return Post(origin=f"{self._scheme}://{by_name.get('host', '')}", path=path, headers=headers, body=body)

    def _respond(self, post: Post) -> None:
        state = self._server
        state.counts.processed += 1
        self._processed_requests += 1
        answer = state.answer(post)
        if isinstance(answer, Reply) and self._processed_requests == state.behavior.goaway_after:
            answer = replace(answer, headers={**answer.headers, "connection": "close"})
        if isinstance(answer, NoReply) or self._processed_requests == state.behavior.cut_after:
            self._transport.close()
        elif state.behavior.never_responds:
            return
        elif state.behavior.latency:
            pause = state.behavior.latency.total_seconds()
            asyncio.get_running_loop().call_later(pause, self._send, answer)
        else:
            self._send(answer)

    def _send(self, reply: Reply) -> None:
        if not self._transport.is_closing():
            self._transport.write(serialize(reply))
        if reply.status < 200 or "connection" in reply.headers:  # after a 1xx the client would wait for the response
            self._transport.close()


def serialize(reply: Reply) -> bytes:
    headers = {**reply.headers, "content-length": str(len(reply.body))}
    lines = [
        f"HTTP/1.1 {reply.status} {STATUS_PHRASES.get(reply.status, '')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("latin-1") + HEADER_END + reply.body
