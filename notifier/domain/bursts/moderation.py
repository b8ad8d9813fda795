"""Reach verdicts: how far an author's mentions are delivered, by operator decision and rules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from notifier.domain.errors import BadReach
from notifier.domain.ids import UserId
from notifier.domain.token_bucket import BucketLimit

MAX_REASON_LENGTH = 500

_TICK = timedelta(milliseconds=1)
"""Finest time resolution that every store keeps."""


class Verdict(StrEnum):
    """Reach of a mention, ordered from the widest to the narrowest."""

    ALL = "all"
    """Rows and alerts."""
    ROW = "row"
    """Rows without alerts."""
    HOLD = "hold"
    """Held until an operator decides."""
    DENY = "deny"
    """Not delivered."""


class MentionsAllowed(StrEnum):
    """Preference of a mentioned account: authors whose mentions reach its followers."""

    ALL = "all"
    FOLLOWED = "followed"
    """Only authors that the account follows."""
    VERIFIED = "verified"
    NONE = "none"

    def admits(self, *, followed: bool, verified: bool) -> bool:
        """Return whether the preference admits a mention. `followed` and `verified` describe its author."""
        match self:
            case MentionsAllowed.FOLLOWED:
                return followed
            case MentionsAllowed.VERIFIED:
                return verified
            case _:
                return self is MentionsAllowed.ALL


class MentionRefusal(StrEnum):
    """Reason why the followers of a mentioned account are not notified, as reported by `GET /v1/events/{id}`."""

    UNKNOWN_ACCOUNT = "unknown_account"
    DELETED_ACCOUNT = "deleted_account"
    SELF_MENTION = "self_mention"
    NOT_WANTED = "not_wanted"
    """The account's preferences keep the mention from its followers. The account itself still gets the mention."""
    DENIED = "denied"
    HELD = "held"
    RETRACTED = "retracted"
    """The tweet was retracted, or edited to no longer mention the account, before it had a burst."""


AUTHOR_CAP = BucketLimit(capacity=20, refill=timedelta(minutes=3))
"""Default of each author's cap: how many mentions of celebrities may cause alerts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorVerdict:
    """An operator's verdict on an author. The verdict with the latest time wins."""

    user: UserId
    verdict: Verdict
    reason: str
    operator: str
    at: datetime


def validated_verdict(author_verdict: AuthorVerdict, current: AuthorVerdict | None) -> AuthorVerdict:
    """Return the verdict, with a time that is later than the current verdict's.

    The writer of the current verdict may have had a clock that was ahead. Raises BadReach if the reason is empty or too
    long.
    """
    reason = author_verdict.reason
    if not reason.strip():
        raise BadReach("The reason is empty.")
    if len(reason) > MAX_REASON_LENGTH:
        raise BadReach(f"The reason has {len(reason)} characters; the limit is {MAX_REASON_LENGTH}.")
    if current is None:
        return author_verdict
    return replace(author_verdict, at=max(author_verdict.at, current.at + _TICK))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentioner:
    """The author of a mention, as a verdict rule sees it."""

    operator_verdict: Verdict = Verdict.ALL
    verified: bool = False
    deleted: bool = False
    within_author_cap: bool = True
    """False if the author's cap has no token left for this mention."""


VerdictRule = Callable[[Mentioner], Verdict]
"""A pure function from author to verdict.

The router calls the rule with `within_author_cap=True` first. If the rule refuses, no token of the author's cap is
taken.

A rule must not hold mentions by authors without an operator verdict. If such an event comes again, the router does not
look up whether it is held already.
"""


def by_operator_verdict(mentioner: Mentioner) -> Verdict:
    """Default rule: the operator's verdict, but rows without alerts once the author's cap has no token left."""
    if mentioner.operator_verdict is Verdict.ALL and not mentioner.within_author_cap:
        return Verdict.ROW
    return mentioner.operator_verdict


def apply_rule(rule: VerdictRule, mentioner: Mentioner, *, released: bool) -> Verdict:
    """Apply the rule. A released mention is not held again; any other verdict applies to it."""
    by_rule = rule(mentioner)
    if by_rule is not Verdict.HOLD or not released:
        return by_rule
    return Verdict.ALL if mentioner.within_author_cap else Verdict.ROW


def audit_fields(author_verdict: AuthorVerdict) -> Mapping[str, object]:
    return {"user": author_verdict.user, "verdict": str(author_verdict.verdict), "reason": author_verdict.reason}
