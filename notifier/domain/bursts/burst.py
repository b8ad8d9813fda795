"""The burst: mentions of one subject that share one notification, and what its text says."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from notifier.domain.bursts.mention import Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import BurstKey, Lane, UserId

RETENTION = timedelta(days=90)
KEPT_MENTIONERS = 16
"""Distinct mentioners that a burst remembers by name; of the rest it knows that there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """The canonical record, read and never copied; `opened_at` places it, growth changes its text alone."""

    key: BurstKey
    version: int
    """The head's version that wrote it: of two writes the higher one stands."""
    opened_at: datetime
    accepted_at: datetime
    """When the opener was accepted: where the latency of every delivery starts."""
    lane: Lane
    verdict: Verdict
    mentioners: tuple[UserId, ...]
    more_mentioners: bool
    count: int
    first_of_day: bool
    restricted_to: UserId | None
    """The protected author whose followers alone may see it; such a burst is its author's alone."""
    tweet: str
    text: str
    pull_only: bool = False
    """Shown by the predicate like any other, and fanned out to nobody: there was no token for it when it opened."""
    silent: bool = False
    """The tweet that it opened with was taken back: no phone rings for it any more."""

    @classmethod
    def opened_by(
        cls,
        mention: Mention,
        *,
        key: BurstKey,
        version: int,
        opened_at: datetime,
        first_of_day: bool,
        pull_only: bool = False,
    ) -> Self:
        return cls(
            key=key,
            version=version,
            opened_at=opened_at,
            accepted_at=mention.accepted_at,
            lane=mention.lane,
            verdict=mention.verdict,
            mentioners=(mention.author,),
            more_mentioners=False,
            count=1,
            first_of_day=first_of_day,
            restricted_to=mention.author if mention.protected else None,
            tweet=mention.tweet,
            text=mention.text,
            pull_only=pull_only,
        )

    @property
    def opened_in(self) -> datetime:
        """The second in which it opened: all that people are told. Restricted bursts push the openings behind them by
        a millisecond each, and those are nobody's business.
        """
        return self.opened_at.replace(microsecond=0)

    @property
    def retracted(self) -> bool:
        """Nothing is left of it. It keeps its place and its names, so that whoever may have seen it can be told."""
        return self.count == 0

    @property
    def narrowed(self) -> bool:
        """Public once, and since then for its author's followers alone."""
        return self.restricted_to is not None and self.silent and not self.retracted

    @property
    def once(self) -> Self:
        """As it may have been before it was silent, as far as that says who could see it."""
        if not self.silent:
            return self
        once = replace(self, count=max(1, self.count), restricted_to=None if self.narrowed else self.restricted_to)
        # Others may have been in it, whom the viewer doesn't block as those who are left.
        others = not (self.retracted or self.restricted_to)
        return replace(once, more_mentioners=once.more_mentioners or others)

    @property
    def opener(self) -> UserId:
        return self.mentioners[0]

    def joined_by(self, mention: Mention, version: int) -> Self:
        known = mention.author in self.mentioners
        room = len(self.mentioners) < KEPT_MENTIONERS
        return replace(
            self,
            version=version,
            count=self.count + 1,
            mentioners=self.mentioners if known or not room else (*self.mentioners, mention.author),
            more_mentioners=self.more_mentioners or not (known or room),
        )


def expires_at(opened_at: datetime) -> datetime:
    return opened_at + RETENTION
