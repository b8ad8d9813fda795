"""Configurable limits, delays and faults of the HTTP/2 test server."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Behavior:
    max_concurrent_streams: int | None = 1_000
    """Concurrent streams per connection. FCM allows 100, and Apple as few as 1. None: not announced."""
    latency: timedelta = timedelta(0)
    """Delay between a request and its response."""
    goaway_after: int | None = None
    """Send GOAWAY at this request of each connection. It is the last one processed; close after the open responses."""
    cut_after: int | None = None
    """Process this request of each connection, then close the connection. Open requests get no response."""
    refuse_first_streams: int = 0
    """Number of first streams of each connection that are refused (REFUSED_STREAM)."""
    never_responds: bool = False
    """Whether requests are processed without a response."""
    ignores_pings: bool = False
    """Whether pings are not acknowledged."""
    sends_no_settings: bool = False
    """Whether SETTINGS are never sent, so that a client does not know the stream limit."""
    initial_window: int = 65_535
    """Initial flow-control window in bytes for the body of a request."""
    window_update_delay: timedelta = timedelta(0)
    """Delay of window updates."""
