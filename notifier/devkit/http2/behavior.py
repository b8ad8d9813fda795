"""Configurable limits, delays and faults of the HTTP/2 test server."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Behavior:
    max_concurrent_streams: int | None = 1_000
    """Concurrent streams per connection. FCM allows 100, and Apple sometimes only 1. None: no limit is announced."""
    latency: timedelta = timedelta(0)
    """Delay between a request and its response."""
    goaway_after: int | None = None
    """Number of processed requests after which a connection sends GOAWAY. It closes after the open responses."""
    cut_after: int | None = None
    """Number of processed requests after which a connection closes. Open requests get no response."""
    refuse_first_streams: int = 0
    """How many of each connection's first streams are refused (REFUSED_STREAM)."""
    never_responds: bool = False
    """Whether requests are processed without a response."""
    ignores_pings: bool = False
    """Whether pings are not acknowledged."""
    sends_no_settings: bool = False
    """Whether SETTINGS are never sent, so that a client does not know the stream limit."""
    initial_window: int = 65_535
    """Initial flow-control window in bytes for the body of a request."""
    window_update_delay: timedelta = timedelta(0)
    """Delay between the data of a request and the window update for it."""
