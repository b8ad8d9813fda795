"""HTTP/2 to the providers: framing by hand on sockets that never block; `hpack` reads the headers of answers."""

from notifier.adapters.http2.connect import Resolver, addresses
from notifier.adapters.http2.limits import Http2Limits
from notifier.adapters.http2.transport import Http2Transport

__all__ = ["Http2Limits", "Http2Transport", "Resolver", "addresses"]
