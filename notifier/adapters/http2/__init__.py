"""HTTP/2 client for push providers: own framing on non-blocking sockets."""

from notifier.adapters.http2.connect import Resolver, resolve_addresses
from notifier.adapters.http2.limits import Http2Limits
from notifier.adapters.http2.transport import Http2Transport

__all__ = ["Http2Limits", "Http2Transport", "Resolver", "resolve_addresses"]
