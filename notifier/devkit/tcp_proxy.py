"""TCP proxy that simulates network faults: cuts, latency and lost responses."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

CHUNK_BYTES = 65_536
CONNECT_TIMEOUT_SECONDS = 5.0
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER value that closes with a reset. Data in flight is lost, as on a broken network."""


class ConnectionHook:
    """Hook that may change the data of one connection, in both directions. This class changes nothing."""

    def change_request(self, chunk: bytes) -> bytes:
        return chunk

    def change_response(self, chunk: bytes) -> bytes:
        return chunk


@dataclass(slots=True, kw_only=True)
class TcpProxy:
    """Listens from its creation on, and resets connections until `upstream` is set."""

    upstream: tuple[str, int] | None = None
    latency: float = 0.0
    """Delay of each chunk in seconds, in both directions."""
    is_cut: bool = False
    """Whether new connections are reset."""
    drops_responses: bool = False
    """Whether responses are dropped. Requests still arrive."""
    dropped_bytes: int = 0
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=256))
    _open_sockets: set[socket.socket] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut(self, seconds: float) -> None:
        """Reset all connections, and new ones for the given seconds."""
        self.is_cut = True
        try:
            self.reset_all()
            time.sleep(seconds)
        finally:
            self.is_cut = False

    def slow(self, seconds: float, latency: float) -> None:
        """Delay all data by `latency` seconds, for the given seconds."""
        self.latency = latency
        try:
            time.sleep(seconds)
        finally:
            self.latency = 0.0

    def reset_all(self) -> None:
        """Reset the open connections, even amid a message."""
        with self._lock:
            connections, self._open_sockets = self._open_sockets, set()
        for connection in connections:
            _reset(connection)

    def new_hook(self) -> ConnectionHook:
        return ConnectionHook()

    def close(self) -> None:
        self.is_cut = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self.reset_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(client,), name="proxied", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        if self.upstream is None:
            return _reset(client)
        try:
            server = socket.create_connection(self.upstream, CONNECT_TIMEOUT_SECONDS)
        except OSError:
            return _reset(client)
        server.settimeout(None)
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open_sockets |= {client, server}
        if self.is_cut:  # check after registering: a connection opened during a cut must not survive it
            self.reset_all()
        hook = self.new_hook()
        threading.Thread(
            target=self._forward, args=(server, client, hook.change_response), kwargs={"is_response": True}, daemon=True
        ).start()
        self._forward(client, server, hook.change_request, is_response=False)
        return None

    def _forward(
        self, source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes], *, is_response: bool
    ) -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                if self.latency:
                    time.sleep(self.latency)
                if is_response and self.drops_responses:
                    self.dropped_bytes += len(chunk)
                else:
                    target.sendall(change(chunk))
        for side in (source, target):
            with self._lock:
                self._open_sockets.discard(side)
            _reset(side)


def _reset(socket_: socket.socket) -> None:
    with suppress(OSError):
        socket_.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        socket_.shutdown(socket.SHUT_RDWR)  # also wakes the thread that reads from it
    socket_.close()
