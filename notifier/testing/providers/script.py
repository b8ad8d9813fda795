"""The script: what a fake provider does besides answering well; the same devices and moments whenever it is played."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2s


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A while, counted from when the fake began."""

    after: timedelta = timedelta()
    lasting: timedelta

    def holds(self, since: timedelta) -> bool:
        return self.after <= since < self.after + self.lasting

    def left(self, since: timedelta) -> timedelta:
        return self.after + self.lasting - since


NEVER = Span(lasting=timedelta())


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    seed: int = 0
    gone: float = 0.0
    """Share of the tokens whose app is there no more."""
    gone_for: timedelta = timedelta(days=1)
    """So long before the fake began."""
    elsewhere: float = 0.0
    """Share of the tokens that are of another environment, or of another project."""
    limited: Span = NEVER
    """429, with the seconds that are left of it as Retry-After."""
    down: Span = NEVER
    """503 for everything."""

    def is_gone(self, token: str) -> bool:
        return self._share("gone", token) < self.gone

    def is_elsewhere(self, token: str) -> bool:
        return self._share("elsewhere", token) < self.elsewhere

    def gone_since(self, began: datetime) -> datetime:
        return began - self.gone_for

    def _share(self, what: str, token: str) -> float:
        """From 0 to 1, and a token's own for ever."""
        digest = blake2s(f"{self.seed}/{what}/{token}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64


def retry_after(span: Span, since: timedelta) -> str:
    return str(max(1, -int(-span.left(since).total_seconds() // 1)))
