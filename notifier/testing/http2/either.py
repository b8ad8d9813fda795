"""A connection whose client hasn't said yet which HTTP it speaks: its first bytes tell, as does what TLS agreed on."""

import asyncio

from notifier.adapters.http2.frames import PREFACE
from notifier.testing.http2.connection import Connection, House
from notifier.testing.http2.http1 import Http1

TELLS = PREFACE[:4]
"""`PRI `: no method of HTTP/1.1 is called so."""


class Either(asyncio.Protocol):
    """Until then it counts for nothing, and is ended with the others."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        secured = transport.get_extra_info("ssl_object")
        if secured is not None and secured.selected_alpn_protocol() == "h2":
            self._become(Connection(self._house))
        else:
            self._house.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._house.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._got += data
        if self._got.startswith(TELLS):
            self._become(Connection(self._house))
        elif not TELLS.startswith(self._got):
            self._become(Http1(self._house))

    def tell_now(self) -> None:
        """It wouldn't know in which words."""

    def abort(self) -> None:
        self._transport.abort()

    def _become(self, one: Connection | Http1) -> None:
        self._house.connections.discard(self)
        self._transport.set_protocol(one)
        one.connection_made(self._transport)
        if self._got:
            one.data_received(self._got)
