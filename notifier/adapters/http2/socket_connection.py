"""Reads and writes the non-blocking socket of an HTTP/2 connection."""

import socket
import ssl

from notifier.adapters.http2.connection_protocol import Http2Connection
from notifier.adapters.http2.frames import NO_ERROR, Violation, goaway

READ_BYTES = 1 << 16
MAX_READS_PER_TURN = 16
"""Maximum number of reads before other connections are served."""


class SocketConnection:
    """One open connection: its socket, and the state of the protocol."""

    def __init__(self, socket_: socket.socket, protocol: Http2Connection) -> None:
        self.socket = socket_
        self.protocol = protocol
        self.closed_reason = ""
        """Reason for the end of the connection; empty while it is open."""
        self.may_have_unread = True
        """Whether there may be data that `poll` does not report. TLS buffers data, even during the handshake."""
        self.is_write_blocked = False
        """Whether there is more to write than the socket accepts."""

    def read(self, now: float) -> None:
        self.may_have_unread = False
        try:
            for _ in range(MAX_READS_PER_TURN):
                data = self.socket.recv(READ_BYTES)
                if not data:
                    self._close(self.protocol.closing_reason or "the peer closed the connection")
                    return
                self.protocol.receive(data, now)
                if len(data) < READ_BYTES and not isinstance(self.socket, ssl.SSLSocket):
                    return
            self.may_have_unread = True
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except Violation as violation:
            self._close(f"HTTP/2 protocol violation: {violation}")
        except OSError as error:
            self._close(self.protocol.closing_reason or _reason(error))

    def write(self) -> None:
        """Write as much as the socket accepts.

        A write error keeps the socket open, so that received data can still be read.
        """
        send_buffer, self.is_write_blocked = self.protocol.send_buffer, False
        while send_buffer.queued:
            try:
                send_buffer.on_sent(self.socket.send(send_buffer.queued))
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                self.is_write_blocked = True
                return
            except OSError as error:
                self.protocol.closing_reason = self.protocol.closing_reason or _reason(error)
                return

    def check_timeouts(self, now: float) -> None:
        if not self.may_have_unread and not self.protocol.check_timeouts(now):
            self._close("the connection is dead: the peer answers no ping")

    def close(self) -> None:
        """Close the connection. Send a GOAWAY first if the socket accepts it at once."""
        if not self.closed_reason:
            self.protocol.send_buffer.queued += goaway(0, NO_ERROR)
            self.write()
            self._close("the connection was closed locally")

    def _close(self, reason: str) -> None:
        self.closed_reason = reason
        self.protocol.on_closed(reason)
        self.socket.close()


def _reason(error: OSError) -> str:
    match error:
        case ConnectionResetError() | BrokenPipeError() | ssl.SSLEOFError():
            return "the peer reset the connection"
        case ssl.SSLError():
            return "TLS failed"
        case _:
            return f"the connection failed: {error.strerror or type(error).__name__}"
