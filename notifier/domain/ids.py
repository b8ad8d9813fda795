"""What one can be notified about, and the frozen policy of each kind."""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import total_ordering
from typing import NewType, Self

from notifier.domain.errors import BadSubject


class Platform(StrEnum):
    """Whose servers know the device; each has a pool of its own."""

    APNS = "apns"
    FCM = "fcm"
    WEB = "web"


UserId = NewType("UserId", str)
"""A person's outside id, as the rest of the platform knows it."""

Member = NewType("Member", int)
"""A person's dense inside number; never reused."""


LONGEST_SEQ = 18
"""Digits: what every store takes as a whole number."""


class Kind(StrEnum):
    MENTION = "mention"
    """Somebody mentions the owner; the audience is the owner's followers."""
    SELF = "self"
    """Somebody mentions the owner; the audience is the owner alone."""
    DIGEST = "digest"
    """The owner's own days; nothing is sequenced or written of it, and its numbers are dates."""


class Lane(StrEnum):
    CELEBRITY = "celebrity"
    STANDARD = "standard"


_KINDS = {str(kind): kind for kind in Kind}
"""To look a word up in the enum itself takes ten times as long, and each first open of an inbox parses dozens."""


@total_ordering
@dataclass(frozen=True, slots=True)
class Subject:
    """One thing that people are notified about, written `mention:nova`."""

    kind: Kind
    owner: UserId

    def __str__(self) -> str:
        return f"{self.kind}:{self.owner}"

    def __hash__(self) -> int:
        """By the owner alone, a fifth of the time: few owners have subjects of two kinds."""
        return hash(self.owner)

    def __lt__(self, other: "Subject") -> bool:
        return str(self) < str(other)

    @classmethod
    def parse(cls, text: str) -> Self:
        kind, _, owner = text.partition(":")
        if kind not in _KINDS or not owner:
            raise BadSubject(text)
        return cls(_KINDS[kind], UserId(owner))


@total_ordering
@dataclass(frozen=True, slots=True)
class BurstKey:
    """A burst's name, written `mention:nova#12`; everything downstream of the head carries it."""

    subject: Subject
    seq: int

    def __str__(self) -> str:
        return f"{self.subject}#{self.seq}"

    def __hash__(self) -> int:
        return hash((self.subject.owner, self.seq))

    def __lt__(self, other: "BurstKey") -> bool:
        return (self.subject, self.seq) < (other.subject, other.seq)

    @classmethod
    def parse(cls, text: str) -> Self:
        subject, hash_sign, seq = text.rpartition("#")
        if not hash_sign or not (seq.isascii() and seq.isdecimal() and len(seq) <= LONGEST_SEQ):
            raise BadSubject(text)
        return cls(Subject.parse(subject), int(seq))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a kind's mentions become bursts; frozen, because stored bursts were made by it."""

    collapse: timedelta
    """The least collapse window: mentions within it share one burst."""
    budget_capacity: int
    """Fan-outs that may follow one another at once; 0 means that the window alone decides.

    Public and restricted fan-outs have one budget each, of the same size.
    """
    budget_refill: timedelta
    """One more fan-out each."""
    collapse_off_limit: int
    """A subject with more followers than this may not switch collapsing off, and spends its budget."""

    def refilled_every(self, wish: timedelta | None) -> Self:
        return self if wish is None else replace(self, budget_refill=wish)

    def budgeted(self, followers: int) -> bool:
        """Small subjects cost little: the collapse window alone bounds them."""
        return self.budget_capacity > 0 and followers > self.collapse_off_limit

    def collapse_for(self, followers: int, wish: timedelta | None) -> timedelta:
        """The least window of a subject of this size; a wish for none is heard below the limit only."""
        if wish is None or (wish == timedelta(0) and followers > self.collapse_off_limit):
            return self.collapse
        return wish


POLICIES = {
    # Six tokens and one more each hour bound a celebrity to about 30 fan-outs a day, however often she is mentioned.
    Kind.MENTION: Policy(
        collapse=timedelta(seconds=60),
        budget_capacity=6,
        budget_refill=timedelta(hours=1),
        collapse_off_limit=100_000,
    ),
    # An audience of one costs one row a minute at most: no budget is needed.
    Kind.SELF: Policy(
        collapse=timedelta(seconds=60),
        budget_capacity=0,
        budget_refill=timedelta(hours=1),
        collapse_off_limit=1,
    ),
}
