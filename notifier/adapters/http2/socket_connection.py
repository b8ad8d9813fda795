"""Connect an HTTP/2 connection to its non-blocking socket."""

import socket
import ssl

from notifier.adapters.http2.connection import Http2Connection
from notifier.adapters.http2.frames import NO_ERROR, Violation, goaway

READ_BYTES = 1 << 16
READS_AT_ONCE = 16
"""Maximum number of reads in sequence before other connections are served."""


class SocketConnection:
    def __init__(self, opened: socket.socket, connection: Http2Connection) -> None:
        self.socket = opened
        self.connection = connection
        self.over = ""
        """Reason for the end of the connection, for operators; empty while it is open."""
        self.unread = True
        """Whether there may be data that `poll` does not report: TLS buffers data, already during the handshake."""
        self.blocked = False
        """Whether there is more to write than the socket accepts."""

    def read(self, now: float) -> None:
        self.unread = False
        try:
            for _ in range(READS_AT_ONCE):
                data = self.socket.recv(READ_BYTES)
                if not data:
                    self._end(self.connection.leaving or "the peer closed the connection")
                    return
                self.connection.receive(data, now)
                if len(data) < READ_BYTES and not isinstance(self.socket, ssl.SSLSocket):
                    return
            self.unread = True
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except Violation as broken:
            self._end(f"HTTP/2 protocol violation: {broken}")
        except OSError as error:
            self._end(self.connection.leaving or _reason(error))

    def write(self) -> None:
        """Write as much as the socket accepts. After a write error, data received earlier can still be read."""
        out, self.blocked = self.connection.out, False
        while out.queued:
            try:
                out.on_sent(self.socket.send(out.queued))
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                self.blocked = True
                return
            except OSError as error:
                self.connection.leaving = self.connection.leaving or _reason(error)
                return

    def check_timeouts(self, now: float) -> None:
        if not self.unread and not self.connection.check_timeouts(now):
            self._end("the connection is dead: the peer answers no ping")

    def close(self) -> None:
        """Close the connection. Send a GOAWAY first if the socket accepts it at once."""
        if not self.over:
            self.connection.out.queued += goaway(0, NO_ERROR)
            self.write()
            self._end("the connection was closed locally")

    def _end(self, reason: str) -> None:
        self.over = reason
        self.connection.on_closed(reason)
        self.socket.close()


def _reason(error: OSError) -> str:
    match error:
        case ConnectionResetError() | BrokenPipeError() | ssl.SSLEOFError():
            return "the peer reset the connection"
        case ssl.SSLError():
            return "TLS failed"
        case _:
            return f"the connection failed: {error.strerror or type(error).__name__}"
