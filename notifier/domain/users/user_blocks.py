"""A parting: one account blocks another, or does so no longer; while either blocks the other, both are hidden."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from notifier.domain.bursts.mention import EventId
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.subject_preferences import ALWAYS, NEVER

Apart = Mapping[UserId, datetime]
"""One person's: with whom, and the moment from which both see each other again; NEVER while a block stands."""


MOST_BLOCKERS = 10_000
"""Rows of others that a look at a list reads: 20 ms in SQLite. Whom a million block would wait for seconds otherwise,
and so never see a list again. Of more, the first by name are known, and those whom the person follows."""


class Side(StrEnum):
    """Whose a block is, as one of the two knows it: each may block the other, and lifting one leaves the other."""

    BLOCKS = "blocks"
    BLOCKED_BY = "blocked_by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """A parting as one of the two has it: a row."""

    member: Member
    other: UserId
    side: Side
    until: datetime
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """What is said of an ordered pair."""

    blocker: UserId
    blocker_member: Member
    blocked: UserId
    blocked_member: Member
    until: datetime
    """From this moment on the two see each other again, as far as this pair is concerned; NEVER: the block stands."""
    sequence: int
    """Of the pair, and at least 1: the highest counts, however late it comes. Of two with the same number the one that
    lasts longer does, so that a block wins."""

    @property
    def halves(self) -> tuple[Half, Half]:
        return (
            self._half(self.blocker_member, self.blocked, Side.BLOCKS),
            self._half(self.blocked_member, self.blocker, Side.BLOCKED_BY),
        )

    def _half(self, member: Member, other: UserId, side: Side) -> Half:
        return Half(member=member, other=other, side=side, until=self.until, sequence=self.sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartingChange:
    """As who keeps the graph says it."""

    id: EventId
    blocker: UserId
    blocked: UserId
    blocks: bool
    """No longer, where it is false."""
    sequence: int
    at: datetime

    def word(self, members: Mapping[UserId, Member]) -> Parting:
        return Parting(
            blocker=self.blocker,
            blocker_member=members[self.blocker],
            blocked=self.blocked,
            blocked_member=members[self.blocked],
            # Of times before 1970 a store may not know which is the later.
            until=NEVER if self.blocks else max(self.at, ALWAYS),
            sequence=self.sequence,
        )


def apart(rows: Iterable[tuple[UserId, datetime]]) -> Apart:
    """By both sides of each pair: the later one counts."""
    found = dict[UserId, datetime]()
    for other, until in rows:
        found[other] = max(until, found.get(other, until))
    return found


def parted(apart: Apart) -> Collection[UserId]:
    """Those with whom a block stands."""
    return frozenset(other for other, until in apart.items() if until == NEVER)


def owners(follows: Iterable[Subject]) -> Collection[UserId]:
    return sorted({subject.owner for subject in follows})


def reunited(follows: Mapping[Subject, datetime], apart: Apart) -> Mapping[Subject, datetime]:
    """`visible_from` of what is followed: what an account's subjects had before it was unblocked isn't seen later."""
    if not apart:
        return follows
    return {subject: max(since, apart.get(subject.owner, ALWAYS)) for subject, since in follows.items()}
