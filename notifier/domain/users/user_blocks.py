"""User blocks: while either account blocks the other, both are hidden from each other."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.subject_preferences import ALWAYS, NEVER

UserBlockEnds = Mapping[UserId, datetime]
"""When the blocks between one user and other accounts ended, by account; NEVER while a block is in force."""

MAX_BLOCKERS = 10_000
"""Maximum number of blockers that one request reads, in the order of their user ids.

Reading as many takes 20 ms in SQLite; a million would take seconds. Blockers that the user follows are read in any
case.
"""


class BlockDirection(StrEnum):
    """Direction of a block, as seen by one account. Blocks in both directions are independent of each other."""

    BLOCKS = "blocks"
    BLOCKED_BY = "blocked_by"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserBlockSide:
    """One side of a user block: a stored row."""

    member: Member
    other_account: UserId
    direction: BlockDirection
    until: datetime
    """The block's `until`: see `UserBlock`."""
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserBlock:
    """Whether one account blocks another: the current state, also after the block was lifted."""

    blocker: UserId
    blocker_member: Member
    blocked: UserId
    blocked_member: Member
    until: datetime
    """When this block stopped hiding the accounts from each other; NEVER while it is in force."""
    sequence: int
    """Sequence number for this blocker and this blocked account (>= 1). The highest wins regardless of arrival order.

    On a tie the later `until` wins: a block wins over an unblock.
    """

    @property
    def sides(self) -> tuple[UserBlockSide, UserBlockSide]:
        return (
            self._side(self.blocker_member, self.blocked, BlockDirection.BLOCKS),
            self._side(self.blocked_member, self.blocker, BlockDirection.BLOCKED_BY),
        )

    def _side(self, member: Member, other_account: UserId, direction: BlockDirection) -> UserBlockSide:
        return UserBlockSide(
            member=member, other_account=other_account, direction=direction, until=self.until, sequence=self.sequence
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserBlockChange:
    """A block or unblock event from the graph service."""

    id: EventId
    blocker: UserId
    blocked: UserId
    blocks: bool
    """False for an unblock."""
    sequence: int
    at: datetime

    def user_block(self, members: Mapping[UserId, Member]) -> UserBlock:
        return UserBlock(
            blocker=self.blocker,
            blocker_member=members[self.blocker],
            blocked=self.blocked,
            blocked_member=members[self.blocked],
            # Some stores cannot order times before 1970.
            until=NEVER if self.blocks else max(self.at, ALWAYS),
            sequence=self.sequence,
        )


def user_block_ends(rows: Iterable[tuple[UserId, datetime]]) -> UserBlockEnds:
    """Combine both directions of each pair of accounts: the later end wins."""
    ends = dict[UserId, datetime]()
    for account, until in rows:
        ends[account] = max(until, ends.get(account, until))
    return ends


def blocked_accounts(ends: UserBlockEnds) -> Collection[UserId]:
    """Return the accounts that are blocked now, in either direction."""
    return frozenset(account for account, until in ends.items() if until == NEVER)


def subject_owners(follows: Iterable[Subject]) -> Collection[UserId]:
    return sorted({subject.owner for subject in follows})


def visible_after_unblock(follows: Mapping[Subject, datetime], ends: UserBlockEnds) -> Mapping[Subject, datetime]:
    """Return `visible_from` of followed subjects. Bursts opened before the account was unblocked stay hidden."""
    if not ends:
        return follows
    return {subject: max(since, ends.get(subject.owner, ALWAYS)) for subject, since in follows.items()}
