"""Records of the graph stream: follows, preferences, user blocks and rebuild requests."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from notifier.domain.audience.follows import UNFOLLOWED, Follow
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferencesChange
from notifier.domain.users.subject_preferences import PreferenceChange
from notifier.domain.users.user_blocks import UserBlockChange


class FollowAction(StrEnum):
    FOLLOW = "follow"
    UNFOLLOW = "unfollow"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowChange:
    """A follow or unfollow event."""

    id: EventId
    follower: UserId
    followed: UserId
    action: FollowAction
    sequence: int
    """Sequence number for the pair of accounts. The highest wins regardless of arrival order."""
    at: datetime

    @property
    def subject(self) -> Subject:
        return Subject(Kind.MENTION, self.followed)

    def follow_row(self, member: Member) -> Follow:
        since = UNFOLLOWED if self.action is FollowAction.UNFOLLOW else self.at
        return Follow(subject=self.subject, member=member, visible_from=since, sequence=self.sequence)


SHARDS_PER_RECORD = 4
"""Maximum number of shards per rebuild record.

The indexer takes 6 ms for a record of four shards, and so 2.4 s for a batch of 400 records. That is less than the lease
of a Kafka consumer on its partitions (5 s).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """A request to rebuild the followed account's bitmaps in these shards from the rows."""

    followed: UserId
    shards: tuple[int, ...]
    has_imported_follows: bool = False
    """An import added follow rows.

    If neither this nor `has_imported_preferences` is set, the rebuild is a repair, and differences count as drift.
    """
    has_imported_preferences: bool = False
    """An import added preference rows."""

    @property
    def subject(self) -> Subject:
        return Subject(Kind.MENTION, self.followed)


def rebuild_requests(
    followed: UserId,
    shards: Iterable[int],
    *,
    has_imported_follows: bool = False,
    has_imported_preferences: bool = False,
) -> list[Rebuild]:
    return [
        Rebuild(
            followed=followed,
            shards=batch,
            has_imported_follows=has_imported_follows,
            has_imported_preferences=has_imported_preferences,
        )
        for batch in shard_batches(shards)
    ]


def shard_batches(shards: Iterable[int]) -> list[tuple[int, ...]]:
    ordered = sorted(shards)
    return [tuple(ordered[n : n + SHARDS_PER_RECORD]) for n in range(0, len(ordered), SHARDS_PER_RECORD)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecord:
    """A record of the graph stream. Exactly one of the fields other than `imported` is set."""

    change: FollowChange | None = None
    preference_change: PreferenceChange | None = None
    rebuild: Rebuild | None = None
    account_preferences_change: AccountPreferencesChange | None = None
    user_block_change: UserBlockChange | None = None
    account_wide_shard: int | None = None
    """Shard whose account-preference bitmaps are to be rebuilt from the rows."""
    imported: bool = False
    """The rebuild of `account_wide_shard` follows an import. Otherwise it is a repair: differences count as drift."""


def shard_key(shard: int) -> str:
    """Return the log key of records about a shard: all are in one partition, so a single consumer handles them."""
    return f"shard/{shard}"
