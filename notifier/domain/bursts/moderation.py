"""The reach verdict: how far one mentioner's mentions may carry, by hand and by rule, and whose an account wants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from notifier.domain.errors import BadReach
from notifier.domain.ids import UserId
from notifier.domain.token_bucket import BucketLimit

LONGEST_REASON = 500
"""Characters."""

_TICK = timedelta(milliseconds=1)
"""What every store tells apart."""


class Verdict(StrEnum):
    """Ordered from the widest to the narrowest."""

    ALL = "all"
    """Rows and alerts."""
    ROW = "row"
    """Rows, and no phone is woken."""
    HOLD = "hold"
    """Waits for a person to decide."""
    DENY = "deny"
    """Reaches nobody."""


class MentionsAllowed(StrEnum):
    """Whose mentions the mentioned account lets through to its followers: its own preference."""

    ALL = "all"
    FOLLOWED = "followed"
    """Of those whom it follows."""
    VERIFIED = "verified"
    NONE = "none"

    def admits(self, *, followed: bool, verified: bool) -> bool:
        """A mention by somebody whom the account follows, or who is verified."""
        match self:
            case MentionsAllowed.FOLLOWED:
                return followed
            case MentionsAllowed.VERIFIED:
                return verified
            case _:
                return self is MentionsAllowed.ALL


class MentionRefusal(StrEnum):
    """Why the followers of an account named in an event get no mention; told by `GET /v1/events/{id}`."""

    UNKNOWN_ACCOUNT = "unknown_account"
    DELETED_ACCOUNT = "deleted_account"
    SELF_MENTION = "self_mention"
    NOT_WANTED = "not_wanted"
    """The account doesn't want it for its followers; it gets its own all the same."""
    DENIED = "denied"
    HELD = "held"
    """The mentioner's mentions wait for a person to decide."""
    RETRACTED = "retracted"
    """The tweet was taken back, or names the account no longer, before it had a burst."""


AUTHOR_LIMIT = BucketLimit(capacity=20, refill=timedelta(minutes=3))
"""How many mentions of celebrities by one author may send push alerts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachWord:
    """What an operator said of an account as a mentioner; what was said last stands."""

    user: UserId
    verdict: Verdict
    reason: str
    who: str
    at: datetime


def checked(word: ReachWord, before: ReachWord | None) -> ReachWord:
    """The same word, said after what stands, also where that is by a clock that is ahead of this one; or BadReach."""
    reason = word.reason
    if not reason.strip():
        raise BadReach("The reason is empty.")
    if len(reason) > LONGEST_REASON:
        raise BadReach(f"The reason has {len(reason)} characters; {LONGEST_REASON} are the most.")
    return word if before is None else replace(word, at=max(word.at, before.at + _TICK))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentioner:
    """What a rule goes by."""

    standing: Verdict = Verdict.ALL
    """By hand."""
    verified: bool = False
    deleted: bool = False
    within_cap: bool = True


Rule = Callable[[Mentioner], Verdict]
"""Pure. A mentioner is taken for one within the cap first, and only a mention that passes so is counted against it.
Nobody is held of whom no operator has said anything: of the others alone it is asked whether they were held before."""


def by_standing(mentioner: Mentioner) -> Verdict:
    """Nobody buys 200 million phones with one @: over the cap a mention still gets its rows, and no alert."""
    if mentioner.standing is Verdict.ALL and not mentioner.within_cap:
        return Verdict.ROW
    return mentioner.standing


def verdict(rule: Rule, mentioner: Mentioner, *, released: bool) -> Verdict:
    """What somebody let go isn't held again, and is denied if that was said since."""
    found = rule(mentioner)
    if found is not Verdict.HOLD or not released:
        return found
    return Verdict.ALL if mentioner.within_cap else Verdict.ROW


def told(word: ReachWord) -> Mapping[str, object]:
    """As the audit has it."""
    return {"user": word.user, "verdict": str(word.verdict), "reason": word.reason}
