"""A connection and its socket: what there is to read is read, and what there is to say is said, without waiting."""

import socket
import ssl

from notifier.adapters.http2.connection import Http2Connection
from notifier.adapters.http2.frames import NO_ERROR, Violation, goaway

PIECE = 1 << 16
PIECES = 16
"""That are read in one go; then others have their turn."""


class Link:
    def __init__(self, opened: socket.socket, connection: Http2Connection) -> None:
        self.socket = opened
        self.connection = connection
        self.over = ""
        """Why it is over, in words for people."""
        self.unread = True
        """Whether there may be something to read that `poll` doesn't tell of: TLS reads ahead, and from the start."""
        self.blocked = False
        """Whether there is more to write than the network takes."""

    def read(self, now: float) -> None:
        self.unread = False
        try:
            for _ in range(PIECES):
                got = self.socket.recv(PIECE)
                if not got:
                    self._end(self.connection.leaving or "the other side closed the connection")
                    return
                self.connection.heard(got, now)
                if len(got) < PIECE and not isinstance(self.socket, ssl.SSLSocket):
                    return
            self.unread = True
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except Violation as broken:
            self._end(f"it doesn't keep to HTTP/2: {broken}")
        except OSError as error:
            self._end(self.connection.leaving or _told(error))

    def write(self) -> None:
        """As much as the network takes. Where it takes nothing any more, what it brought before can be read still."""
        out, self.blocked = self.connection.out, False
        while out.queued:
            try:
                out.sent(self.socket.send(out.queued))
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                self.blocked = True
                return
            except OSError as error:
                self.connection.leaving = self.connection.leaving or _told(error)
                return

    def judge(self, now: float) -> None:
        if not self.unread and not self.connection.judge(now):
            self._end("the connection gave no sign of life")

    def close(self) -> None:
        """It says so, where that can be said at once."""
        if not self.over:
            self.connection.out.queued += goaway(0, NO_ERROR)
            self.write()
            self._end("the connection was closed here")

    def _end(self, reason: str) -> None:
        self.over = reason
        self.connection.end(reason)
        self.socket.close()


def _told(error: OSError) -> str:
    match error:
        case ConnectionResetError() | BrokenPipeError() | ssl.SSLEOFError():
            return "the other side cut the connection"
        case ssl.SSLError():
            return "TLS broke"
        case _:
            return f"the connection broke: {error.strerror or type(error).__name__}"
