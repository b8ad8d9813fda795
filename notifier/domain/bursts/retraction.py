"""Retractions: deleted or edited tweets, and erased or protected authors.

Retractions are sticky: stored per tweet or author, and kept longer than anything they can hide. So they also apply to
mentions that arrive later.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import NewType

from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.ids import UserId

RetractionKey = NewType("RetractionKey", str)
"""Key under which a retraction is stored: of a tweet, an erasure or a protection."""
DayKey = NewType("DayKey", str)
"""Key of an author's mentions that were accepted on one day. No retraction has such a key."""
LookupKey = RetractionKey | DayKey
"""Key under which mentions are found: the retraction key of their tweet, or a day key."""


class RetractionCause(StrEnum):
    EDIT = "edit"
    """Mentions of accounts that the new text no longer names are retracted. Newly named accounts are not notified."""
    DELETE = "delete"
    PROTECT = "protect"
    """Earlier tweets of the author become visible to the author's followers only."""
    ERASE = "erase"
    """Earlier tweets of the author are retracted."""


READ_AHEAD = timedelta(seconds=5)
"""How far into the future day keys are read, because a gateway's clock may be ahead."""
MAX_LOG_WAIT = timedelta(days=1)
"""Assumed longest wait of a mention in the log: a burst may open this long after its mention was accepted."""

_DELETION_RANK = 1 << 60
"""Added to a deletion's rank. Higher than any sequence number, so a deletion outranks every edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """A retraction event. It never affects tweets of other authors."""

    id: EventId
    cause: RetractionCause
    author: UserId
    tweet: str = ""
    """Id of the tweet. Empty if the retraction affects everything that the author has written up to `at`."""
    at: datetime
    sequence: int = 0
    """Sequence number of an edit among all edits of its tweet. The highest wins regardless of arrival order."""
    mentioned: tuple[UserId, ...] = ()
    """Accounts that the edited tweet mentions."""
    text: str = ""
    """Text of the edited tweet."""

    @property
    def key(self) -> RetractionKey:
        if self.tweet:
            return tweet_key(self.author, self.tweet)
        return erasure_key(self.author) if self.cause is RetractionCause.ERASE else protection_key(self.author)

    @property
    def rank(self) -> int:
        """Return the rank among retractions with the same key. The highest wins regardless of arrival order."""
        if not self.tweet:
            return int(self.at.timestamp() * 1000)
        return self.sequence + _DELETION_RANK if self.cause is RetractionCause.DELETE else self.sequence

    def mention_lookup_keys(self, now: datetime) -> Collection[LookupKey]:
        """Return the lookup keys of mentions that the retraction may affect, the latest day first."""
        if self.tweet:
            return [self.key]
        return day_keys(self.author, now - RETENTION - MAX_LOG_WAIT, now + READ_AHEAD)[::-1]

    def apply_to(self, mention: Mention) -> Mention:
        """Apply the retraction to a mention. An erasure or protection does not change mentions written later."""
        if mention.author != self.author or (not self.tweet and mention.happened_at > self.at):
            return mention
        match self.cause:
            case RetractionCause.EDIT if mention.subject.owner in self.mentioned:
                return replace(mention, text=self.text)
            case RetractionCause.PROTECT:
                return replace(mention, protected=True)
            case RetractionCause.EDIT | RetractionCause.DELETE | RetractionCause.ERASE:
                return replace(mention, retracted=True, text="")


def tweet_key(author: UserId, tweet: str) -> RetractionKey:
    """Return the key of a tweet. It contains the author, so retractions by other authors have no effect."""
    return RetractionKey(f"tweet/{len(author)}/{author}/{tweet}")


def protection_key(author: UserId) -> RetractionKey:
    return RetractionKey(f"author/{author}")


def erasure_key(author: UserId) -> RetractionKey:
    """Return the key of an erasure.

    It differs from `protection_key`, because an erased author may write again and become protected. Then both
    retractions count.
    """
    return RetractionKey(f"erased/{author}")


def day_keys(author: UserId, first: datetime, last: datetime) -> Sequence[DayKey]:
    """Return the lookup keys of an author's mentions, one per day of acceptance, so that no partition grows forever."""
    days = (last.date() - first.date()).days
    return [DayKey(f"day/{first.date() + timedelta(days=n)}/{author}") for n in range(days + 1)]


def retraction_keys(mention: Mention) -> Collection[RetractionKey]:
    """Return the keys of retractions that may affect the mention."""
    return tweet_key(mention.author, mention.tweet), erasure_key(mention.author), protection_key(mention.author)


def mention_lookup_keys(mention: Mention) -> Collection[LookupKey]:
    return tweet_key(mention.author, mention.tweet), *day_keys(mention.author, mention.accepted_at, mention.accepted_at)


def apply_retractions(mention: Mention, retractions: Mapping[RetractionKey, Retraction]) -> Mention:
    for key in retraction_keys(mention):
        if (retraction := retractions.get(key)) is not None and not mention.retracted:
            mention = retraction.apply_to(mention)
    return mention


def belongs_to(mention: Mention, burst: Burst) -> bool:
    """Return whether a mention that was sequenced into the burst still counts as part of it."""
    if mention.retracted:
        return False
    return mention.author == burst.restricted_to if mention.protected else burst.restricted_to is None


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionChange:
    """One mention of a burst, before and after a retraction."""

    before: Mention
    after: Mention

    def is_leaving(self, burst: Burst) -> bool:
        return belongs_to(self.before, burst) and not belongs_to(self.after, burst)

    def is_entering(self, burst: Burst) -> bool:
        """Return whether the change makes the mention part of the burst.

        This happens if the burst is restricted to an author's followers, and another mention by that author becomes
        protected.
        """
        return not belongs_to(self.before, burst) and belongs_to(self.after, burst)


def amended(
    burst: Burst, changes: Collection[MentionChange], remaining: Mapping[UserId, Mention], *, version: int
) -> Burst:
    """Return the burst after the changes.

    `remaining` has mentions that stay in the burst, at most one per author. It covers the mentioners with a leaving
    mention, or all mentioners if the shown tweet leaves. If none of them has a mention that stays, `remaining` may have
    a mention by a new mentioner.

    A mentioner with a leaving mention but none in `remaining` is removed. If the shown tweet leaves, the first
    mentioner who has a mention in `remaining` becomes the opener, and the tweet of that mention is shown.
    """
    leaving = [change for change in changes if change.is_leaving(burst)]
    count = burst.count - len(leaving) + sum(change.is_entering(burst) for change in changes)
    leaving_authors = {change.before.author for change in leaving}
    staying = [author for author in burst.mentioners if author not in leaving_authors or author in remaining]
    mentioners = staying or list(remaining)[:1]
    if count <= 0 or not mentioners:
        return _after_last_mention_left(burst, [change.after for change in leaving], version)
    after = replace(burst, version=version, count=count, mentioners=tuple(mentioners))
    if all(change.before.tweet != burst.tweet for change in leaving):
        return next((replace(after, text=c.after.text) for c in changes if c.after.tweet == burst.tweet), after)
    opener = next((author for author in (*mentioners, *remaining) if author in remaining), None)
    if opener is None:
        return _after_last_mention_left(burst, [change.after for change in leaving], version)
    later_mentioners = (author for author in mentioners if author != opener)
    return _with_shown_tweet(replace(after, silent=True, mentioners=(opener, *later_mentioners)), remaining[opener])


def _after_last_mention_left(burst: Burst, leaving: Collection[Mention], version: int) -> Burst:
    """Return the burst after its last mention has left.

    If leaving mentions are protected instead of retracted, those by the author of the earliest one stay. The burst is
    then restricted to the followers of this author.
    """
    protected = sorted((mention for mention in leaving if not mention.retracted), key=attrgetter("accepted_at"))
    by_first_author = [mention for mention in protected if mention.author == protected[0].author]
    after = replace(burst, version=version, silent=True, count=len(by_first_author), more_mentioners=False)
    if not by_first_author:
        return replace(after, text="")
    first = by_first_author[0]
    return _with_shown_tweet(replace(after, restricted_to=first.author, mentioners=(first.author,)), first)


def _with_shown_tweet(burst: Burst, mention: Mention) -> Burst:
    return replace(burst, tweet=mention.tweet, text=mention.text)
