"""The leanest sender of the same requests: prepared bytes that differ only in stream numbers."""

import socket
from urllib.parse import urlsplit

from notifier.adapters.http2 import frames
from notifier.adapters.http2.hpack import TABLE_SIZE_ZERO, encode_fields
from notifier.ports.push import Post

MAX_IN_FLIGHT = 1_000
REQUESTS_PER_WRITE = 64
WINDOW_BYTES = 1 << 30


class LeanestSender:
    """Sends without reading headers, deadlines or names: nearly the cost of the system calls alone."""

    def __init__(self, post: Post) -> None:
        place = urlsplit(post.origin)
        self._link = socket.create_connection((place.hostname, place.port))
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = frames.FrameReader()
        self._next, self._open = 1, 0
        own = [(":method", "POST"), (":scheme", place.scheme), (":authority", place.netloc), (":path", post.path)]
        self._block, self._body = encode_fields([*own, *post.headers]), post.body
        begin = frames.settings([(frames.TABLE_SIZE, 0)]) + frames.window_update(0, WINDOW_BYTES)
        self._link.sendall(frames.PREFACE + begin + frames.frame(frames.SETTINGS, frames.ACK, 0))
        self._send(1, first=True)
        while self._open:
            self._read()

    def send(self, many: int) -> None:
        """Send the requests and return when all are answered."""
        while many or self._open:
            size = min(REQUESTS_PER_WRITE, many, MAX_IN_FLIGHT - self._open)
            if size:
                self._send(size)
                many -= size
            if self._open >= MAX_IN_FLIGHT or not many:
                self._read()

    def close(self) -> None:
        self._link.close()

    def _send(self, many: int, *, first: bool = False) -> None:
        out = bytearray()
        for _ in range(many):
            block = TABLE_SIZE_ZERO + self._block if first else self._block
            out += frames.frame(frames.HEADERS, frames.END_HEADERS, self._next, block)
            out += frames.frame(frames.DATA, frames.END_STREAM, self._next, self._body)
            self._next += 2
        self._open += many
        self._link.sendall(out)

    def _read(self) -> None:
        got = self._link.recv(1 << 16)
        if not got:
            raise ConnectionError("the benchmark's server closed the connection")
        self._open -= sum(kind == frames.HEADERS for kind, *_ in self._reader.feed(got))
