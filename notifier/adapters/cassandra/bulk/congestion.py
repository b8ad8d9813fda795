"""How much may be on its way to Cassandra: more while it answers soon, half as much when it refuses.

Additive increase, multiplicative decrease, as TCP does it: several writers that know nothing of each other end up with
equal shares, and the node's line stays short enough for a tier in a hurry. In bytes, because messages differ tenfold.
"""

from dataclasses import dataclass
from datetime import timedelta

from notifier.domain.timing import Backoff

BEGINS = 512 * 1024
"""Some 100 messages of inbox rows: what one node answers in 30 ms."""
LEAST = 256 * 1024
"""Keeps one node busy, though we are held up for a while; half as much does not."""
MOST = 8 * 1024 * 1024
STEP = 128 * 1024
"""What is added when as much as is allowed has been answered; before the first slowing down it is doubled."""
FULL = 0.75
"""Of what is allowed: below it more is not needed, above it who waits need not be told of every answer."""
SOON = 0.1
"""Seconds. Whoever waits longer waits in the node's line, in which others stand, too."""
BACKOFF = Backoff(first=timedelta(milliseconds=10), longest=timedelta(seconds=1))
"""After each refusal in a row, until a message is accepted."""


@dataclass(slots=True)
class CongestionWindow:
    allowed: float = BEGINS
    underway: int = 0
    refusals: int = 0
    """Since the last message was accepted."""
    quiet_until: float = 0.0
    slowed_at: float = 0.0

    @property
    def full(self) -> bool:
        return self.underway > FULL * self.allowed

    def wait(self, size: int, now: float) -> float | None:
        """Seconds until as much may be sent; None: until something is answered. A single message always may."""
        if now < self.quiet_until:
            return self.quiet_until - now
        return 0.0 if not self.underway or self.underway + size <= self.allowed else None

    def sent(self, size: int) -> None:
        self.underway += size

    def answered(self, size: int, sent_at: float, now: float) -> None:
        full = self.full
        self.underway -= size
        self.refusals = 0
        if now - sent_at > SOON:
            self._slow(0.8, sent_at, now)
        elif full:
            self.allowed = min(MOST, self.allowed + (STEP * size / self.allowed if self.slowed_at else size))

    def refused(self, size: int, sent_at: float, now: float) -> None:
        self.underway -= size
        if self._slow(0.5, sent_at, now):
            self.quiet_until = now + BACKOFF.delay(self.refusals).total_seconds()
            self.refusals += 1

    def gone(self, size: int) -> None:
        """Without an answer that says how busy the node is."""
        self.underway -= size

    def _slow(self, by: float, sent_at: float, now: float) -> bool:
        """Of what was sent before the last time it tells nothing new."""
        if sent_at < self.slowed_at:
            return False
        self.allowed, self.slowed_at = max(LEAST, self.allowed * by), now
        return True
