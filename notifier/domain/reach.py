"""The reach verdict: how far one mentioner's mentions may carry."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


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
    NONE = "none"


class Refusal(StrEnum):
    """Why the followers of an account named in an event get no mention; told by `GET /v1/events/{id}`."""

    UNKNOWN_ACCOUNT = "unknown_account"
    DELETED_ACCOUNT = "deleted_account"
    SELF_MENTION = "self_mention"
    NOT_WANTED = "not_wanted"
    """The account wants no mentions for its followers; it gets its own all the same."""
    DENIED = "denied"
    HELD = "held"
    """The mentioner's mentions wait for a person to decide."""
    RETRACTED = "retracted"
    """The tweet was taken back, or names the account no longer, before it had a burst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCap:
    """How often one mentioner may wake the phones of celebrities' followers."""

    capacity: int = 20
    refill: timedelta = timedelta(minutes=3)


def verdict(standing: Verdict, within_cap: bool) -> Verdict:
    """Nobody buys 200 million phones with one @: over the cap a mention still gets its rows, and no alert."""
    if standing is Verdict.ALL and not within_cap:
        return Verdict.ROW
    return standing
