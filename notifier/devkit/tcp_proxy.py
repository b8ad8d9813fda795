"""TCP proxy that simulates network faults: cuts, latency and lost responses."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

CHUNK = 65_536
CONNECTS_WITHIN = 5.0
"""Seconds."""
AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER value that closes with a reset. Data in flight is lost, as on a broken network."""


class Conversation:
    """Hook that may change the data of one connection, in both directions. This one passes it on unchanged."""

    def forth(self, piece: bytes) -> bytes:
        return piece

    def back(self, piece: bytes) -> bytes:
        return piece


@dataclass(slots=True, kw_only=True)
class Proxy:
    """Listens at once, on a fixed port, and forwards connections once `upstream` is set."""

    upstream: tuple[str, int] | None = None
    latency: float = 0.0
    """Delay of each chunk in seconds, in both directions."""
    parted: bool = False
    """Whether new connections are reset at once."""
    answers_lost: bool = False
    """Whether responses are dropped. Requests still arrive."""
    swallowed: int = 0
    """Bytes of dropped responses."""
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=256))
    _open: set[socket.socket] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut(self, seconds: float) -> None:
        """Reset every connection and reject new ones for the given seconds."""
        self.parted = True
        try:
            self.sever()
            time.sleep(seconds)
        finally:
            self.parted = False

    def slow(self, seconds: float, latency: float) -> None:
        self.latency = latency
        try:
            time.sleep(seconds)
        finally:
            self.latency = 0.0

    def sever(self) -> None:
        """Reset every connection, even amid a message. New connections are accepted."""
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            _break(connection)

    def conversation(self) -> Conversation:
        return Conversation()

    def close(self) -> None:
        self.parted = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self.sever()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(near,), name="proxied", daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        if self.upstream is None:
            return _break(near)
        try:
            far = socket.create_connection(self.upstream, CONNECTS_WITHIN)
        except OSError:
            return _break(near)
        far.settimeout(None)
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open |= {near, far}
        if self.parted:  # check after registering: a connection opened during a cut must not survive it
            self.sever()
        hook = self.conversation()
        threading.Thread(target=self._carry, args=(far, near, hook.back), kwargs={"back": True}, daemon=True).start()
        self._carry(near, far, hook.forth, back=False)
        return None

    def _carry(
        self, source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes], *, back: bool
    ) -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK):
                if self.latency:
                    time.sleep(self.latency)
                if back and self.answers_lost:
                    self.swallowed += len(chunk)
                else:
                    target.sendall(change(chunk))
        for end in (source, target):
            with self._lock:
                self._open.discard(end)
            _break(end)


def _break(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        end.shutdown(socket.SHUT_RDWR)  # also wakes the thread that reads from it
    end.close()
