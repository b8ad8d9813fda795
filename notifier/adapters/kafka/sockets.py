"""How a client connects: straight to the broker, closing at once what didn't come about."""

import socket
from typing import Any

from kafka.net import KafkaNetSocket

STRAIGHT = "straight://"
"""The `proxy_url` that chooses it: the library's own way leaves the sockets of refused connections to the collector."""


class _Straight(KafkaNetSocket):  # type: ignore[misc]  # the library has no types
    SCHEMES = ("straight",)

    async def sock_connect(self, net: Any, sock: socket.socket, sockaddr: Any, timeout_at: float | None = None) -> Any:
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise
