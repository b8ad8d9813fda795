"""Bursts: mentions of one subject that share one notification."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from notifier.domain.bursts.events_and_mentions import Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import BurstKey, Lane, UserId

RETENTION = timedelta(days=90)
"""How long a burst is visible after its opening."""
MAX_MENTIONERS = 16
"""Maximum number of distinct mentioners that a burst stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A burst as it is stored. Inbox rows refer to it by key.

    Later mentions do not change `opened_at`, so the burst keeps its place in lists.
    """

    key: BurstKey
    version: int
    """Version of the sequence head that created or last changed the burst. The highest version wins."""
    opened_at: datetime
    accepted_at: datetime
    """When the first mention was accepted. Delivery latency is measured from here."""
    lane: Lane
    verdict: Verdict
    mentioners: tuple[UserId, ...]
    more_mentioners: bool
    """The burst has, or may have had, mentioners who are not in `mentioners`."""
    count: int
    first_of_day: bool
    restricted_to: UserId | None
    """Protected author of all mentions of the burst. Only this author's followers see the burst."""
    tweet: str
    text: str
    pull_only: bool = False
    """The burst is visible like any other, but not fanned out: the budget was empty when it opened."""
    silent: bool = False
    """No more alerts are sent, because the shown tweet was retracted or protected."""

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
    def opened_second(self) -> datetime:
        """Return the opening time in whole seconds, as users see it.

        A restricted burst may delay the next opening by a millisecond, so exact times would reveal the restricted
        burst.
        """
        return self.opened_at.replace(microsecond=0)

    @property
    def is_retracted(self) -> bool:
        """Return whether no mentions are left.

        A retracted burst keeps its opening time and mentioners. They tell an open stream whether its client may still
        show the burst.
        """
        return self.count == 0

    @property
    def became_restricted(self) -> bool:
        """Return whether the burst was public and is now restricted to followers of a protected author."""
        return self.restricted_to is not None and self.silent and not self.is_retracted

    @property
    def before_retraction(self) -> Self:
        """Return the burst as it may have been before it became silent, to find the users who could see it."""
        if not self.silent:
            return self
        before = replace(
            self, count=max(1, self.count), restricted_to=None if self.became_restricted else self.restricted_to
        )
        # A viewer who blocks all listed mentioners may have seen the burst because of mentioners who left the list.
        # For a retracted or restricted burst this is not assumed.
        may_have_had_more = not (self.is_retracted or self.restricted_to)
        return replace(before, more_mentioners=before.more_mentioners or may_have_had_more)

    @property
    def opener(self) -> UserId:
        return self.mentioners[0]

    def joined_by(self, mention: Mention, version: int) -> Self:
        is_listed = mention.author in self.mentioners
        has_room = len(self.mentioners) < MAX_MENTIONERS
        return replace(
            self,
            version=version,
            count=self.count + 1,
            mentioners=self.mentioners if is_listed or not has_room else (*self.mentioners, mention.author),
            more_mentioners=self.more_mentioners or not (is_listed or has_room),
        )


def expires_at(opened_at: datetime) -> datetime:
    return opened_at + RETENTION
