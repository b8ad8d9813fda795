"""The alert: what a phone shows of a burst, and how long and how loudly; one for all who get it."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2s

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.push.translations import ENGLISH, PHRASES, language_of

KEPT = timedelta(hours=6)
"""As long as the bulk of rows is worth its work: a phone that is turned on later than that finds it in the tab."""
TRIAL_KEPT = timedelta(minutes=10)
"""Whoever tries it has the phone at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionAlert:
    """Names the opener alone: who joined later, and how many, isn't known when phones ring."""

    opener: UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileAway:
    """Alerts that waited for too long, as one."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAlert:
    """Whether an alert arrives; in every language the same."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    burst: BurstKey
    """For our own records; it never travels."""
    id: str
    """The same whenever it is sent, and no other alert's: 32 hexadecimal digits."""
    collapse_id: str
    """Of two alerts with the same the later takes the earlier one's place on the phone. An ordinary alert replaces
    itself alone, when it is repeated; a summary replaces the last one of its subject. 32 letters: APNs takes 64 bytes,
    Web Push 32 characters."""
    news: MentionAlert | WhileAway | ProbeAlert
    expires_at: datetime
    """In whole seconds. Afterwards a provider forgets it, if the phone wasn't there until then."""
    urgent: bool = True
    """May wake a phone that sleeps, and sounds."""

    @property
    def subject(self) -> Subject:
        return self.burst.subject

    @property
    def summary(self) -> bool:
        return isinstance(self.news, WhileAway)

    @property
    def text(self) -> str:
        return self.text_in(ENGLISH)

    def text_in(self, locale: str) -> str:
        phrases = PHRASES[language_of(locale)]
        you = self.subject.kind is Kind.SELF
        whom = f"@{self.subject.owner}"
        match self.news:
            case MentionAlert(opener=opener):
                return (phrases.mention_you if you else phrases.mention).format(who=opener, whom=whom)
            case WhileAway(count=count):
                return (phrases.away_you if you else phrases.away).format(count=count, whom=whom)
            case ProbeAlert(text=text):
                return text


def alert(burst: Burst, *, urgent: bool = True) -> Alert:
    # Not of the burst's key: a hash of so few possible numbers can be undone, and the numbers count restricted bursts.
    # Opening and opener's tweet are the burst's for ever once it has slices, and shown to whoever gets the alert. A
    # tweet that opens two bursts, told again hours later, opens them in two seconds; within one, the alerts are alike.
    digest = _digest(_opening(burst))
    return Alert(
        burst=burst.key,
        id=digest,
        collapse_id=digest,
        news=MentionAlert(opener=burst.opener),
        expires_at=burst.opened_in + KEPT,
        urgent=urgent,
    )


def summary(newest: Burst, count: int) -> Alert:
    """In place of so many alerts of one subject that waited for too long, to those for whom they are so many."""
    return Alert(
        burst=newest.key,
        id=_digest(f"{count} while away until {_opening(newest)}"),
        collapse_id=_digest(f"while away: {newest.key.subject}"),
        news=WhileAway(count=count),
        expires_at=newest.opened_in + KEPT,
        urgent=False,
    )


def told_late(one: Alert, now: datetime) -> Alert:
    """Kept for as long from now on: after a night its own time is over, and a phone that isn't there in that moment
    would never show it."""
    return replace(one, expires_at=now.replace(microsecond=0) + KEPT)


def trial(user: UserId, text: str, *, now: datetime, nonce: str) -> Alert:
    """Of no burst, to one person; each with another nonce."""
    digest = _digest(f"trial {nonce}")
    return Alert(
        burst=BurstKey(Subject(Kind.SELF, user), 0),
        id=digest,
        collapse_id=digest,
        news=ProbeAlert(text=text),
        expires_at=now.replace(microsecond=0) + TRIAL_KEPT,
    )


def _opening(burst: Burst) -> str:
    return f"{burst.key.subject}/{burst.opened_in.isoformat()}/{burst.tweet}"


def _digest(words: str) -> str:
    return blake2s(words.encode(), digest_size=16).hexdigest()
