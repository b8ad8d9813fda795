"""Marks: what a person has seen, read and hidden; and the token that says up to where a page may be `seen`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from notifier.domain.ids import BurstKey, UserId

SETTLED_AFTER = timedelta(seconds=5)
"""A page's `as_of` stays this far behind its `now`: what a burst may need to become visible, twice, and three seconds
for a clock that is wrong: the coordinator's, behind, or the page's, ahead."""


class Mark(StrEnum):
    READ = "read"
    UNREAD = "unread"
    HIDDEN = "hidden"
    NONE = "none"
    """Was marked, and that was taken back: as without a mark, but the person has dealt with it, and no phone rings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenToken:
    """Issued with a page by the server, so that nobody can mark as seen what no page could have shown."""

    viewer: UserId
    as_of: datetime
    newer: frozenset[BurstKey]
    """Keys on the page that opened after `as_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    seen_at: datetime | None = None
    """Everything opened up to here was seen; only ever moves forward."""
    also_seen: frozenset[BurstKey] = frozenset()
    """Bursts newer than `seen_at` that were on a page marked as seen."""
    by_burst: Mapping[BurstKey, Mark] = field(default_factory=dict)

    def unseen(self, burst: BurstKey, opened_at: datetime) -> bool:
        later = self.seen_at is None or opened_at > self.seen_at
        return later and not (self.also_seen and burst in self.also_seen)

    def with_seen(self, token: SeenToken) -> "Marks":
        seen_at = token.as_of if self.seen_at is None else max(self.seen_at, token.as_of)
        return replace(self, seen_at=seen_at, also_seen=self.also_seen | token.newer)

    def with_mark(self, bursts: Collection[BurstKey], mark: Mark) -> "Marks":
        return replace(self, by_burst={**self.by_burst, **dict.fromkeys(bursts, mark)})
