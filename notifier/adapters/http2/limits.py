"""How much a transport may have on its way, and how long it waits for what."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    connections: int = 2
    """To one origin, at most; beside them one for what is suspect. FCM gives each 100 streams: at 50 ms that is 2,000 a
    second, and 10,000 a second take six."""
    connections_in_all: int = 64
    """To all origins; Web Push has many. Who rests gives way."""
    streams: int = 1_000
    """On one connection, where its peer allows as many."""
    waiting: int = 256
    """Posts that are taken before there is room for them, so that one slow origin isn't waited for by the others."""
    answer: timedelta = timedelta(seconds=10)
    """What a post is given on its way. Google asks for no less than 10 s before a request is tried again."""
    opening: timedelta = timedelta(seconds=10)
    """Look-up, connection and TLS together."""
    crowded: timedelta = timedelta(milliseconds=50)
    """How long a post waits for room before another connection is opened for it: longer than streams take to come free
    where answers are prompt, shorter than it takes anybody to notice."""
    quiet: timedelta = timedelta(seconds=3)
    """With something on its way and nothing heard for so long, a connection is asked for a sign of life."""
    pong: timedelta = timedelta(seconds=3)
    """In which that has to come."""
    rest: timedelta = timedelta(seconds=15)
    """After so long a rest, a connection gives a sign of life before anything is sent on it: where it was forgotten
    meanwhile, as address translators do after minutes, nothing is lost then."""
    barred: timedelta = timedelta(seconds=1)
    """An origin that couldn't be reached isn't tried again before."""
    tries: int = 3
    """How often a post that certainly didn't arrive is sent before its sender is told so."""
