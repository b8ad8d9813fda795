"""HTTP/1.1 connection of the test server, for clients without HTTP/2."""

import asyncio
from dataclasses import replace
from http import HTTPStatus

from notifier.devkit.http2.connection import ServerState
from notifier.devkit.http2.streams import MOST_BODY
from notifier.ports.push import NoReply, Post, Reply

END = b"\r\n\r\n"
PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Http1(asyncio.Protocol):
    """One HTTP/1.1 connection. It supports latency, stalls, `goaway_after` and `cut_after`.

    A Silence closes the connection, because HTTP/1.1 cannot refuse a single request without a response.
    """

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._got = bytearray()
        self._requests_received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        self._server.counts.connections += 1
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._got += data
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
        head, separator, _ = self._got.partition(END)
        if not separator and len(head) <= MOST_BODY:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        _, path, _ = first.split(" ")
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        by_name = dict(headers)
        size = int(by_name.get("content-length", "0"))
        if not 0 <= size <= MOST_BODY:
            raise ValueError("invalid or too large content-length")
        body_start = len(head) + len(END)
        if len(self._got) < body_start + size:
            return None
        body = bytes(self._got[body_start : body_start + size])
        del self._got[: body_start + size]
        return Post(origin=f"{self._scheme}://{by_name.get('host', '')}", path=path, headers=headers, body=body)

    def _respond(self, post: Post) -> None:
        state = self._server
        state.counts.processed += 1
        self._requests_received += 1
        answer = state.answer(post)
        if isinstance(answer, Reply) and self._requests_received == state.behaviour.goaway_after:
            answer = replace(answer, headers={**answer.headers, "connection": "close"})
        if isinstance(answer, NoReply) or self._requests_received == state.behaviour.cut_after:
            self._transport.close()
        elif state.behaviour.latency:
            pause = state.behaviour.latency.total_seconds()
            asyncio.get_running_loop().call_later(pause, self._send, answer)
        elif not state.behaviour.never_responds:
            self._send(answer)

    def _send(self, reply: Reply) -> None:
        if not self._transport.is_closing():
            self._transport.write(written(reply))
        if reply.status < 200 or "connection" in reply.headers:  # after a 1xx the client would wait for the response
            self._transport.close()


def written(reply: Reply) -> bytes:
    headers = {**reply.headers, "content-length": str(len(reply.body))}
    lines = [
        f"HTTP/1.1 {reply.status} {PHRASES.get(reply.status, '')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("latin-1") + END + reply.body
