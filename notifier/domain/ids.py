"""Identifiers of users, subjects and bursts, and the policies of subjects."""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import total_ordering
from typing import NewType, Self

from notifier.domain.errors import BadSubject


class Platform(StrEnum):
    """Push provider of a device: Apple, Google, or the browser's push service."""

    APNS = "apns"
    FCM = "fcm"
    WEB = "web"


UserId = NewType("UserId", str)
"""External id of a user, as upstream services and clients know it."""

Member = NewType("Member", int)
"""Internal number of a user: nearly without gaps, never reused."""


MAX_SEQ_DIGITS = 18
"""Maximum number of digits of the number in a burst key. Every store can keep an integer of this length."""


class Kind(StrEnum):
    """Kind of a subject: the first part of its name."""

    MENTION = "mention"
    """A mention of the owner; the audience is the owner's followers."""
    SELF = "self"
    """A mention of the owner; the audience is the owner alone."""
    DIGEST = "digest"
    """A daily digest for the owner. It has no sequence head and is never stored. The number in its key is a date."""


class Lane(StrEnum):
    """Path of an account's mentions, by its number of followers."""

    CELEBRITY = "celebrity"
    STANDARD = "standard"


_KINDS = {str(kind): kind for kind in Kind}
"""Lookup table for `Subject.parse`. The enum's own lookup takes ten times as long, and an inbox page parses dozens."""


@total_ordering
@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of notifications, written `mention:nova`."""

    kind: Kind
    owner: UserId

    def __str__(self) -> str:
        return f"{self.kind}:{self.owner}"

    def __hash__(self) -> int:
        """Hash the owner only. Hashing both fields takes five times as long."""
        return hash(self.owner)

    def __lt__(self, right: "Subject") -> bool:
        return str(self) < str(right)

    @classmethod
    def parse(cls, text: str) -> Self:
        kind, _, owner = text.partition(":")
        if kind not in _KINDS or not owner:
            raise BadSubject(text)
        return cls(_KINDS[kind], UserId(owner))


@total_ordering
@dataclass(frozen=True, slots=True)
class BurstKey:
    """Key of a burst, written `mention:nova#12`."""

    subject: Subject
    seq: int

    def __str__(self) -> str:
        return f"{self.subject}#{self.seq}"

    def __hash__(self) -> int:
        return hash((self.subject.owner, self.seq))

    def __lt__(self, right: "BurstKey") -> bool:
        return (self.subject, self.seq) < (right.subject, right.seq)

    @classmethod
    def parse(cls, text: str) -> Self:
        subject, hash_sign, seq = text.rpartition("#")
        if not hash_sign or not (seq.isascii() and seq.isdecimal() and len(seq) <= MAX_SEQ_DIGITS):
            raise BadSubject(text)
        return cls(Subject.parse(subject), int(seq))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Collapse window and fan-out budget of a kind of subject."""

    collapse: timedelta
    """Shortest collapse window: how long further public mentions join an open burst."""
    budget_capacity: int
    """Number of fan-outs that may follow each other immediately; 0 if fan-outs need no budget.

    Public and restricted fan-outs have separate budgets of this size.
    """
    budget_refill: timedelta
    """Time in which the budget earns one more fan-out."""
    max_small_followers: int
    """Maximum number of followers of a small subject. Small subjects need no budget, and an override may switch
    collapsing off."""

    def refilled_every(self, refill_override: timedelta | None) -> Self:
        """Return the policy with this refill time; the same policy for None."""
        return self if refill_override is None else replace(self, budget_refill=refill_override)

    def needs_budget(self, followers: int) -> bool:
        """Return whether fan-outs to this many followers consume a budget. Those of small subjects cost little."""
        return self.budget_capacity > 0 and followers > self.max_small_followers

    def collapse_for(self, followers: int, collapse_override: timedelta | None) -> timedelta:
        """Return the shortest collapse window of a subject of this size.

        An override of zero, which switches collapsing off, is ignored above `max_small_followers` followers.
        """
        if collapse_override is None or (collapse_override == timedelta(0) and followers > self.max_small_followers):
            return self.collapse
        return collapse_override


POLICIES = {
    # Six tokens plus one an hour limit a celebrity to 30 public fan-outs in any day, however frequent the mentions.
    Kind.MENTION: Policy(
        collapse=timedelta(seconds=60),
        budget_capacity=6,
        budget_refill=timedelta(hours=1),
        max_small_followers=100_000,
    ),
    # A burst with an audience of one costs one row: no budget is needed.
    Kind.SELF: Policy(
        collapse=timedelta(seconds=60),
        budget_capacity=0,
        budget_refill=timedelta(hours=1),
        max_small_followers=1,
    ),
}
