"""Tokens whose signature was verified before: a user's next requests bring the same one."""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime

from notifier.api.tokens import Holder
from notifier.telemetry import Hits

MOST_VERIFIED = 20_000
"""About 15 MB. Tokens last for a quarter of an hour; the one that was used least lately leaves first."""


@dataclass(frozen=True, slots=True)
class VerifiedTokens:
    """For one event loop. Only tokens that were good are kept, each until it ends."""

    hits: Hits
    _holders: "OrderedDict[str, Holder]" = field(default_factory=OrderedDict, repr=False)
    """By the whole Authorization header."""

    def holder(self, authorization: str | None, now: datetime) -> Holder | None:
        if authorization is None or (found := self._holders.get(authorization)) is None:
            self.hits.missed.inc()
            return None
        # As when it was verified: a clock that was set back makes a token one of the future.
        if not found.begins_at <= now.timestamp() < found.ends_at:
            del self._holders[authorization]
            self.hits.missed.inc()
            return None
        self._holders.move_to_end(authorization)
        self.hits.hit.inc()
        return found

    def keep(self, authorization: str | None, holder: Holder) -> None:
        if authorization is None:
            return
        self._holders[authorization] = holder
        if len(self._holders) > MOST_VERIFIED:
            self._holders.popitem(last=False)
