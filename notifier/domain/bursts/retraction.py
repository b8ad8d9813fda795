"""A retraction: a tweet that is no more, or not what it was; an author who is no more, or not public any more.

Its word is sticky: it is kept under the name of the tweet or the author, longer than anything that it could hide, and
counts for mentions that come after it as for those that are there.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import NewType

from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.bursts.mention import EventId, Mention
from notifier.domain.bursts.sequencer import CLOCKS_APART
from notifier.domain.ids import UserId

Trail = NewType("Trail", str)
"""What a retraction stands under, and what leads to the mentions that it may be about."""


class RetractionCause(StrEnum):
    EDIT = "edit"
    """The tweet says something else. Whom it names no longer is taken out; whom it names since is told nothing."""
    DELETE = "delete"
    PROTECT = "protect"
    """What the author has written so far is for the author's followers alone."""
    ERASE = "erase"


WAITS_AT_MOST = timedelta(days=1)
"""In the log: what is shown may have been accepted so long before it opened."""

_FINAL_RANK = 1 << 60
"""Of a deletion: more than any edit's sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    id: EventId
    cause: RetractionCause
    author: UserId
    tweet: str = ""
    """Empty where it is about all that the author has written until then."""
    at: datetime
    sequence: int = 0
    """Of a tweet's edits: the highest counts, however late it comes."""
    mentioned: tuple[UserId, ...] = ()
    """Whom the edited tweet still names."""
    text: str = ""

    @property
    def trail(self) -> Trail:
        if self.tweet:
            return tweet_trail(self.author, self.tweet)
        return erased_trail(self.author) if self.cause is RetractionCause.ERASE else author_trail(self.author)

    @property
    def rank(self) -> int:
        """Of two under one trail the higher stands, in whatever order they come."""
        if not self.tweet:
            return int(self.at.timestamp() * 1000)
        return self.sequence + _FINAL_RANK if self.cause is RetractionCause.DELETE else self.sequence

    def leads_to(self, now: datetime) -> Collection[Trail]:
        """Where the mentions are that it may be about, the latest first."""
        if self.tweet:
            return [self.trail]
        return day_trails(self.author, now - RETENTION - WAITS_AT_MOST, now + CLOCKS_APART)[::-1]

    def of(self, mention: Mention) -> Mention:
        """The mention as this leaves it: nobody takes back what somebody else has written, or what came later."""
        if mention.author != self.author or (not self.tweet and mention.happened_at > self.at):
            return mention
        match self.cause:
            case RetractionCause.EDIT if mention.subject.owner in self.mentioned:
                return replace(mention, text=self.text)
            case RetractionCause.PROTECT:
                return replace(mention, protected=True)
            case RetractionCause.EDIT | RetractionCause.DELETE | RetractionCause.ERASE:
                return replace(mention, retracted=True, text="")


def tweet_trail(author: UserId, tweet: str) -> Trail:
    """Of the author alone: what somebody else says of the tweet stands beside it, and counts nothing."""
    return Trail(f"tweet/{len(author)}/{author}/{tweet}")


def author_trail(author: UserId) -> Trail:
    return Trail(f"author/{author}")


def erased_trail(author: UserId) -> Trail:
    """Beside the other: each has a moment of its own, and who was erased may write again, and be protected."""
    return Trail(f"erased/{author}")


def day_trails(author: UserId, first: datetime, last: datetime) -> Sequence[Trail]:
    """An author's mentions lie by the day on which they were accepted: who writes for years fills no trail for ever."""
    days = (last.date() - first.date()).days
    return [Trail(f"day/{first.date() + timedelta(days=n)}/{author}") for n in range(days + 1)]


def stands_under(mention: Mention) -> Collection[Trail]:
    """The retractions that may be about it."""
    return tweet_trail(mention.author, mention.tweet), erased_trail(mention.author), author_trail(mention.author)


def found_by(mention: Mention) -> Collection[Trail]:
    """The trails that lead to it."""
    return tweet_trail(mention.author, mention.tweet), *day_trails(
        mention.author, mention.accepted_at, mention.accepted_at
    )


def as_it_stands(mention: Mention, said: Mapping[Trail, Retraction]) -> Mention:
    for trail in stands_under(mention):
        if (word := said.get(trail)) is not None and not mention.retracted:
            mention = word.of(mention)
    return mention


def counts(mention: Mention, burst: Burst) -> bool:
    """Whether a mention that was numbered with the burst is one of it: what is for an author's followers alone has no
    part in what all may see."""
    if mention.retracted:
        return False
    return mention.author == burst.restricted_to if mention.protected else burst.restricted_to is None


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionChange:
    """One mention of a burst, as it was and as it stands."""

    before: Mention
    after: Mention

    def leaves(self, burst: Burst) -> bool:
        return counts(self.before, burst) and not counts(self.after, burst)

    def enters(self, burst: Burst) -> bool:
        """Of a burst that was left to its author's followers, by another of the author's mentions."""
        return not counts(self.before, burst) and counts(self.after, burst)


def amended(burst: Burst, changes: Collection[MentionChange], rest: Mapping[UserId, Mention], *, version: int) -> Burst:
    """The burst once the changes are made; `rest` has a mention that stays, of every author who may come to be named.

    Its place, its moment and whom it was announced to are what they were. It names the mentioners that it still has,
    and of those beyond the ones that it kept by name somebody where nobody else is left, or shown. Who is named and has
    none that stays is about to be settled, too.
    """
    leaving = [change for change in changes if change.leaves(burst)]
    count = burst.count - len(leaving) + sum(change.enters(burst) for change in changes)
    gone = {change.before.author for change in leaving}
    names = [name for name in burst.mentioners if name not in gone or name in rest] or list(rest)[:1]
    if count <= 0 or not names:
        return _emptied(burst, [change.after for change in leaving], version)
    after = replace(burst, version=version, count=count, mentioners=tuple(names))
    if all(change.before.tweet != burst.tweet for change in leaving):
        return next((replace(after, text=one.after.text) for one in changes if one.after.tweet == burst.tweet), after)
    first = next((name for name in (*names, *rest) if name in rest), None)
    if first is None:
        return _emptied(burst, [change.after for change in leaving], version)
    others = (name for name in names if name != first)
    return _shown_by(replace(after, silent=True, mentioners=(first, *others)), rest[first])


def _emptied(burst: Burst, leaving: Collection[Mention], version: int) -> Burst:
    """Nothing is left for everybody; what one author's followers may still see is left for them."""
    private = sorted((mention for mention in leaving if not mention.retracted), key=attrgetter("accepted_at"))
    own = [mention for mention in private if mention.author == private[0].author]
    after = replace(burst, version=version, silent=True, count=len(own), more_mentioners=False)
    if not own:
        return replace(after, text="")
    return _shown_by(replace(after, restricted_to=own[0].author, mentioners=(own[0].author,)), own[0])


def _shown_by(burst: Burst, mention: Mention) -> Burst:
    return replace(burst, tweet=mention.tweet, text=mention.text)
