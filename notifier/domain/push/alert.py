"""Push alerts: content, priority and expiry."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2s

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.push.translations import ENGLISH, PHRASES_BY_LANGUAGE, language_of

ALERT_TTL = timedelta(hours=6)
"""Lifetime of an alert, from the opening of the burst; of a late alert, from its sending."""
TEST_ALERT_TTL = timedelta(minutes=10)
"""Lifetime of a test alert. The tester has the device at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionAlert:
    """Alert for one burst. It names only the opener, because further authors may join the burst later."""

    opener: UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryAlert:
    """One alert in place of several late alerts of a subject."""

    count: int
    """Number of bursts that the alert stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestAlert:
    """Test alert, the same in every language."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert, which many devices may get."""

    burst: BurstKey
    """The burst of the alert. Its number is never sent."""
    id: str
    """The same for every retry: 32 hexadecimal digits."""
    collapse_id: str
    """An alert replaces an earlier one with the same collapse id on the device.

    So a summary replaces the previous summary of its subject.
    32 characters: APNs accepts 64 bytes, Web Push 32 characters.
    """
    content: MentionAlert | SummaryAlert | TestAlert
    expires_at: datetime
    """In whole seconds. If the device was not reachable until then, the provider drops the alert."""
    is_urgent: bool = True
    """The alert may wake a sleeping device, or make a sound."""

    @property
    def subject(self) -> Subject:
        return self.burst.subject

    @property
    def is_summary(self) -> bool:
        return isinstance(self.content, SummaryAlert)

    @property
    def text(self) -> str:
        return self.text_in(ENGLISH)

    def text_in(self, locale: str) -> str:
        phrases = PHRASES_BY_LANGUAGE[language_of(locale)]
        is_own = self.subject.kind is Kind.SELF
        account = f"@{self.subject.owner}"
        match self.content:
            case MentionAlert(opener=opener):
                return (phrases.mention_of_you if is_own else phrases.mention).format(who=opener, whom=account)
            case SummaryAlert(count=count):
                return (phrases.summary_of_you if is_own else phrases.summary).format(count=count, whom=account)
            case TestAlert(text=text):
                return text


def burst_alert(burst: Burst, *, urgent: bool = True) -> Alert:
    # Do not hash the burst's key: a client could try all numbers, and so learn the count of restricted bursts. The
    # opening second and the tweet are known to all recipients, and do not change while alerts of the burst are sent.
    # Bursts of one subject that a tweet opens within a second get one id, and their alerts look the same.
    alert_id = _hash(_opening(burst))
    return Alert(
        burst=burst.key,
        id=alert_id,
        collapse_id=alert_id,
        content=MentionAlert(opener=burst.opener),
        expires_at=burst.opened_second + ALERT_TTL,
        is_urgent=urgent,
    )


def summary_alert(newest: Burst, count: int) -> Alert:
    """Return one alert for `count` bursts of a subject whose alerts are late. `newest` is the newest of them."""
    return Alert(
        burst=newest.key,
        id=_hash(f"{count} while away until {_opening(newest)}"),
        collapse_id=_hash(f"while away: {newest.key.subject}"),
        content=SummaryAlert(count=count),
        expires_at=newest.opened_second + ALERT_TTL,
        is_urgent=False,
    )


def with_renewed_ttl(alert: Alert, now: datetime) -> Alert:
    """Return the alert with its lifetime counted from now. Use it for late alerts.

    After a night of quiet hours the original lifetime is over, and the provider would not keep the alert.
    """
    return replace(alert, expires_at=now.replace(microsecond=0) + ALERT_TTL)


def build_test_alert(user: UserId, text: str, *, now: datetime, nonce: str) -> Alert:
    """Return a test alert for one user. Each test alert needs a new nonce."""
    alert_id = _hash(f"test {nonce}")
    return Alert(
        burst=BurstKey(Subject(Kind.SELF, user), 0),
        id=alert_id,
        collapse_id=alert_id,
        content=TestAlert(text=text),
        expires_at=now.replace(microsecond=0) + TEST_ALERT_TTL,
    )


def _opening(burst: Burst) -> str:
    return f"{burst.key.subject}/{burst.opened_second.isoformat()}/{burst.tweet}"


def _hash(text: str) -> str:
    return blake2s(text.encode(), digest_size=16).hexdigest()
