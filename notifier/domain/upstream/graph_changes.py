"""What is said of an account by those who follow, mute or block it, and asked of whoever keeps its audience."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from notifier.domain.audience.follows import LEFT, Follow
from notifier.domain.bursts.mention import EventId
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import OverallWord
from notifier.domain.users.subject_preferences import Word
from notifier.domain.users.user_blocks import PartingChange


class Deed(StrEnum):
    FOLLOW = "follow"
    UNFOLLOW = "unfollow"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChange:
    id: EventId
    follower: UserId
    followed: UserId
    deed: Deed
    sequence: int
    """Of the pair: the highest counts, however late it comes."""
    at: datetime

    @property
    def subject(self) -> Subject:
        return Subject(Kind.MENTION, self.followed)

    def word(self, member: Member) -> Follow:
        """As the follower's own."""
        since = LEFT if self.deed is Deed.UNFOLLOW else self.at
        return Follow(subject=self.subject, member=member, visible_from=since, sequence=self.sequence)


SHARDS_AT_ONCE = 4
"""That one record asks for: 6 ms of the indexer's time, so that a full batch of such records ends within its lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """The bitmaps of these shards are to be made again from the rows."""

    followed: UserId
    shards: tuple[int, ...]
    imported: bool = False
    """Rows were added, of followers alone. Else something is wrong, and by how much is counted as drift."""
    wanted: bool = False
    """The same of rows of what people want, alone."""

    @property
    def subject(self) -> Subject:
        return Subject(Kind.MENTION, self.followed)


def rebuilds(followed: UserId, shards: Iterable[int], *, imported: bool = False, wanted: bool = False) -> list[Rebuild]:
    """Of any number of shards, a few in each."""
    runs = few(shards)
    return [Rebuild(followed=followed, shards=run, imported=imported, wanted=wanted) for run in runs]


def few(shards: Iterable[int]) -> list[tuple[int, ...]]:
    """As many at a time as one record may ask for."""
    rest = sorted(shards)
    return [tuple(rest[n : n + SHARDS_AT_ONCE]) for n in range(0, len(rest), SHARDS_AT_ONCE)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecord:
    """What the stream carries: one of them."""

    change: GraphChange | None = None
    word: Word | None = None
    rebuild: Rebuild | None = None
    overall: OverallWord | None = None
    parting: PartingChange | None = None
    everybody: int | None = None
    """The shard of which what everybody wants of everything is to be made again from the rows."""
    imported: bool = False
    """That is since rows were added."""


def shard_key(shard: int) -> str:
    """Of records that are about no account: a shard's go to one partition, whose reader alone writes its bitmaps."""
    return f"shard/{shard}"
