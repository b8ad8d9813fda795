"""Records of the graph stream: follows, preferences, user blocks and rebuild requests."""

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
    """A follow or unfollow event."""

    id: EventId
    follower: UserId
    followed: UserId
    deed: Deed
    sequence: int
    """Sequence number of the pair. The highest wins regardless of arrival order."""
    at: datetime

    @property
    def subject(self) -> Subject:
        return Subject(Kind.MENTION, self.followed)

    def word(self, member: Member) -> Follow:
        """Return the follower's row."""
        since = LEFT if self.deed is Deed.UNFOLLOW else self.at
        return Follow(subject=self.subject, member=member, visible_from=since, sequence=self.sequence)


SHARDS_AT_ONCE = 4
"""Most shards per rebuild record: 6 ms of indexer time, so that a full batch of them ends within its lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """A request to rebuild the bitmaps of these shards from the rows."""

    followed: UserId
    shards: tuple[int, ...]
    imported: bool = False
    """An import added follow rows. Without `imported` or `wanted` it is a repair, and differences count as drift."""
    wanted: bool = False
    """An import added preference rows."""

    @property
    def subject(self) -> Subject:
        return Subject(Kind.MENTION, self.followed)


def rebuilds(followed: UserId, shards: Iterable[int], *, imported: bool = False, wanted: bool = False) -> list[Rebuild]:
    """Split any number of shards into rebuild requests."""
    runs = few(shards)
    return [Rebuild(followed=followed, shards=run, imported=imported, wanted=wanted) for run in runs]


def few(shards: Iterable[int]) -> list[tuple[int, ...]]:
    """Split the shards into groups of at most SHARDS_AT_ONCE."""
    ordered = sorted(shards)
    return [tuple(ordered[n : n + SHARDS_AT_ONCE]) for n in range(0, len(ordered), SHARDS_AT_ONCE)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecord:
    """A record of the graph stream. Exactly one of the fields other than `imported` is set."""

    change: GraphChange | None = None
    word: Word | None = None
    rebuild: Rebuild | None = None
    overall: OverallWord | None = None
    parting: PartingChange | None = None
    everybody: int | None = None
    """Shard whose account-preference bitmaps are to be rebuilt from the rows."""
    imported: bool = False
    """The rebuild of account-preference bitmaps follows an import."""


def shard_key(shard: int) -> str:
    """Return the key of records that are about no account.

    Records of a shard go to one partition, whose consumer is the only writer of its bitmaps.
    """
    return f"shard/{shard}"
