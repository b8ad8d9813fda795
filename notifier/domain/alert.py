"""The alert: what a phone shows of a burst, rendered once for all who get it."""

from dataclasses import dataclass
from hashlib import blake2s

from notifier.domain.burst import Burst
from notifier.domain.subject import BurstKey, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    burst: BurstKey
    """For our own records; it never travels."""
    collapse_id: str
    """A repeated alert replaces itself on the phone. 32 letters: APNs takes 64 bytes, Web Push 32 characters."""
    text: str


def alert(burst: Burst) -> Alert:
    """Names the opener alone: who joined later, and how many, isn't known when phones ring."""
    whom = "you" if burst.key.subject.kind is Kind.SELF else f"@{burst.key.subject.owner}"
    # Not of the burst's key: a hash of so few possible numbers can be undone, and the numbers count restricted bursts.
    # Opening and opener's tweet are the burst's for ever once it has slices, and shown to whoever gets the alert. A
    # tweet that opens two bursts, told again hours later, opens them in two seconds; within one, the alerts are alike.
    opening = f"{burst.key.subject}/{burst.opened_in.isoformat()}/{burst.tweet}"
    digest = blake2s(opening.encode(), digest_size=16).hexdigest()
    return Alert(burst=burst.key, collapse_id=digest, text=f"{burst.opener} mentioned {whom}")
