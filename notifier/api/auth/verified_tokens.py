"""Tokens whose signature was verified before: a user's next requests bring the same one."""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime

from notifier.api.auth.tokens import Holder
from notifier.metrics import Hits

MOST_BYTES = 16_000_000
"""About 20,000 tokens. They last for a quarter of an hour; the one that was used least lately leaves first."""
HOLDER_BYTES = 600
"""Measured with tracemalloc; the token's text comes on top."""


@dataclass(slots=True)
class VerifiedTokens:
    """For one event loop. Only tokens that were good are kept, each until it ends."""

    hits: Hits
    size: int = 0
    _holders: "OrderedDict[str, Holder]" = field(default_factory=OrderedDict, repr=False)

    def holder(self, token: str, now: datetime) -> Holder | None:
        if (found := self._holders.get(token)) is None:
            self.hits.missed.inc()
            return None
        # As when it was verified: a clock that was set back makes a token one of the future.
        if not found.begins_at <= now.timestamp() < found.ends_at:
            self._forget(token)
            self.hits.missed.inc()
            return None
        self._holders.move_to_end(token)
        self.hits.hit.inc()
        return found

    def keep(self, token: str, holder: Holder) -> None:
        self._forget(token)
        self._holders[token] = holder
        self.size += HOLDER_BYTES + len(token)
        while self.size > MOST_BYTES:
            self._forget(next(iter(self._holders)))

    def _forget(self, token: str) -> None:
        if self._holders.pop(token, None) is not None:
            self.size -= HOLDER_BYTES + len(token)
