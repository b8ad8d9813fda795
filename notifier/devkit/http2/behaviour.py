"""How the HTTP/2 server of the fakes behaves, whatever is asked of it: its limits, its pace, and how it fails."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    streams: int | None = 1_000
    """That it takes at once on a connection; FCM's are 100, and Apple's go down to 1. None: it doesn't say."""
    latency: timedelta = timedelta(0)
    """Between a request and its answer."""
    goaway_after: int | None = None
    """At this request of each connection it says GOAWAY: it acts on it and on none after it, answers, and goes."""
    cut_after: int | None = None
    """At this request of each connection it acts on it and cuts the connection: who isn't answered by then never is."""
    refused: int = 0
    """So many streams of each connection are refused first (REFUSED_STREAM)."""
    stalls: bool = False
    """It takes requests, acts on them and answers none."""
    deaf: bool = False
    """It gives no sign of life either."""
    mute: bool = False
    """It never says its settings, so that a client doesn't know how many streams it takes."""
    window: int = 65_535
    """Of the body of a request it takes so many bytes before it says that it takes more."""
    pause: timedelta = timedelta(0)
    """Before it says so."""
