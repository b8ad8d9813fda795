"""Sequence head of a subject: numbers its bursts from log records, as pure functions.

A head holds everything that its last change decided, until that is published. After a crash any process can finish the
work from the head, without the log.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Self

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import POLICIES, BurstKey, Policy, Subject
from notifier.domain.token_bucket import BucketLimit, TokenBucket

VISIBILITY_DEADLINE = timedelta(seconds=1)
"""Age at which an unpublished burst is restamped, unless it has a plan with its current opening time.

Users may have opened a page without the burst meanwhile. With the old opening time, marking that page as seen would
also mark the burst as seen.
"""

REFUSED_VERDICTS = (Verdict.HOLD, Verdict.DENY)
"""Verdicts of mentions that get no burst."""

MAX_OPENING_LEAD = timedelta(seconds=5)
"""How far a mention's time of acceptance may move the opening of its burst into the future.

The coordinator's clock may be behind that of the gateway. If bursts opened at the coordinator's time, one could open in
a period that a user has already marked as seen. This limit is larger than MAX_CLOCK_SKEW of
`domain/users/visibility.py`, so only a clock that is wrong reaches it.
"""

MIN_OPENING_GAP = timedelta(milliseconds=1)
"""Least time between the openings of two bursts of a subject, so that their times differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencedMention:
    """A mention with the number of its burst."""

    mention: Mention
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBurstOfDay:
    """The first public burst of a UTC day, for users with the volume `first`."""

    seq: int
    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Sequence head: the current state of one subject's bursts."""

    subject: Subject
    version: int = 0
    nonce: str = ""
    """Identifies the writer of this version. Resolves a compare-and-set whose answer was lost."""
    seq: int = 0
    """Number of the newest burst; 0 before any."""
    open: Burst | None = None
    """The public burst that the next public mention may join."""
    first: FirstBurstOfDay | None = None
    """First public burst of the latest day on which a public burst opened.

    None without public bursts, and after this first burst was retracted or restricted.
    """
    last_opened_at: datetime | None = None
    """Latest opening time of a burst, restricted ones included."""
    budget: TokenBucket | None = None
    """Token bucket of public fan-outs."""
    restricted_budget: TokenBucket | None = None
    """Token bucket of restricted fan-outs. Separate, so that public and protected authors can't starve each other."""
    applied: Mapping[str, int]
    """Offset of the last applied record in each log partition that carried this subject."""
    outbox: tuple[Burst, ...] = ()
    """Bursts created or changed by the last change, until they are published. New ones are ordered by number."""
    sequenced: tuple[SequencedMention, ...] = ()
    """Mentions numbered by the last change."""
    changed: tuple[SequencedMention, ...] = ()
    """Mentions numbered earlier that the last change modified, in their new state."""
    announced: int = 0
    """Bursts up to this number have been published, and keep their opening time."""

    @classmethod
    def empty(cls, subject: Subject) -> Self:
        return cls(subject=subject, applied={})

    @property
    def is_published(self) -> bool:
        return not self.outbox


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMention:
    partition: str
    offset: int
    mention: Mention


def advance(
    head: Head,
    records: Sequence[LoggedMention],
    *,
    sequenced_events: Collection[EventId],
    now: datetime,
    nonce: str,
    collapse_override: timedelta | None = None,
    refill_override: timedelta | None = None,
) -> Head:
    """Return the head after these records of its subject, given in log order; the same head if no record is new.

    `sequenced_events` are events that have a burst already. They advance only the offset, so redelivery is idempotent.
    """
    assert head.is_published, "publish the decided bursts before deciding again"
    after = replace(head, version=head.version + 1, nonce=nonce)
    seen = set(sequenced_events)
    for record in records:
        if record.offset <= after.applied.get(record.partition, -1):
            continue
        after = replace(after, applied={**after.applied, record.partition: record.offset})
        if record.mention.event in seen or record.mention.retracted or record.mention.verdict in REFUSED_VERDICTS:
            continue
        seen.add(record.mention.event)
        policy = POLICIES[record.mention.subject.kind].refilled_every(refill_override)
        after = _sequence(after, record.mention, policy, now=now, collapse_override=collapse_override)
    return head if after.applied == head.applied else after


def with_late_bursts_restamped(head: Head, *, planned: Collection[int], now: datetime, nonce: str) -> Head:
    """Return the head with new opening times for bursts that were not announced within VISIBILITY_DEADLINE.

    Bursts in `planned` have a plan with their current opening time, and keep it. All other bursts after the first late
    burst get new times, too, so that they still follow it.
    """
    unplanned = [b for b in head.outbox if b.key.seq > head.announced and b.key.seq not in planned]
    late = [b.key.seq for b in unplanned if now > b.opened_at + VISIBILITY_DEADLINE]
    if not late:
        return head
    version = head.version + 1
    outbox = _with_new_opening_times(
        head.outbox, {b.key.seq for b in unplanned if b.key.seq >= late[0]}, now=now, version=version
    )
    firsts = [_as_first_of_day(burst) for burst in outbox if burst.first_of_day]
    latest = max(burst.opened_at for burst in outbox)
    by_key = {burst.key: burst for burst in outbox}
    return replace(
        head,
        version=version,
        nonce=nonce,
        outbox=outbox,
        open=by_key.get(head.open.key, head.open) if head.open else None,
        first=firsts[-1] if firsts else head.first,
        last_opened_at=max(latest, head.last_opened_at or latest),
    )


def after_retraction(head: Head, bursts: Sequence[Burst], changed: Sequence[SequencedMention], *, nonce: str) -> Head:
    """Return the head after a retraction. `bursts` are the bursts that it changed, in the returned head's version.

    A burst that is no longer public stops being the open burst. It keeps its old plan and opening time, so a mention
    that joined it would not reach the mention's audience.

    The burst also stops being the first of its day. The next public burst to open becomes the first, even if a later
    burst of that day is open already.
    """
    assert head.is_published, "publish the decided bursts before deciding again"
    after = replace(head, version=head.version + 1, nonce=nonce, outbox=tuple(bursts), changed=tuple(changed))
    by_number = {burst.key.seq: burst for burst in bursts}
    if head.first and not _is_public(by_number.get(head.first.seq)):
        after = replace(after, first=None)
    if head.open and (current := by_number.get(head.open.key.seq)):
        after = replace(after, open=current if _is_public(current) else None)
    return after


def _is_public(burst: Burst | None) -> bool:
    """Return whether a burst is public and has mentions left. None stands for a public burst that did not change."""
    return burst is None or not (burst.is_retracted or burst.restricted_to)


def after_publishing(head: Head, *, nonce: str) -> Head:
    """Return the head after publishing: its bursts are durable, and their announcement was tried."""
    return replace(head, version=head.version + 1, nonce=nonce, outbox=(), sequenced=(), changed=(), announced=head.seq)


def _sequence(
    head: Head, mention: Mention, policy: Policy, *, now: datetime, collapse_override: timedelta | None
) -> Head:
    collapse = policy.collapse_for(mention.followers, collapse_override)
    if mention.protected:
        return _open_restricted(head, mention, budget=_refilled(head.restricted_budget, policy, mention, now), now=now)
    budget = _refilled(head.budget, policy, mention, now)
    current = head.open
    if current is None or (has_budget(budget) and _needs_alerting_burst(current, mention)):
        return _open_public(head, mention, budget=budget, now=now)
    if is_collapse_window_over(budget, opened_at=current.opened_at, collapse=collapse, now=now):
        return _open_public(head, mention, budget=budget, now=now)
    return _with_mention(head, current.joined_by(mention, head.version), mention, budget=budget, is_public=True)


def _needs_alerting_burst(burst: Burst, mention: Mention) -> bool:
    """Return whether the verdict of the open burst rules out alerts, and that of the mention does not.

    Such a mention opens a new burst. Otherwise an author whose cap is used up could open a burst without alerts, and so
    suppress the alerts for all authors who join it.
    """
    return burst.verdict is not Verdict.ALL and mention.verdict is Verdict.ALL


def _open_public(head: Head, mention: Mention, *, budget: TokenBucket | None, now: datetime) -> Head:
    """Open a public burst. It is pull-only if the budget is empty.

    A retraction may close the open burst before its collapse window ends, and the next mention opens a new one. If that
    one needed no budget, each retracted tweet would allow one more fan-out.
    """
    burst = _next_burst(head, mention, now=now, pull_only=not has_budget(budget))
    opened = _with_opening(head, burst)
    return _with_mention(opened, burst, mention, budget=_charged(budget, burst), is_public=True)


def _open_restricted(head: Head, mention: Mention, *, budget: TokenBucket | None, now: datetime) -> Head:
    """Open a restricted burst, one per mention. It is pull-only if the restricted budget is empty."""
    burst = _next_burst(head, mention, now=now, pull_only=not has_budget(budget))
    charged = _charged(budget, burst)
    head = replace(_with_opening(head, burst), restricted_budget=charged or head.restricted_budget)
    return _with_mention(head, burst, mention, budget=head.budget, is_public=False)


def _charged(budget: TokenBucket | None, burst: Burst) -> TokenBucket | None:
    return budget.spent() if budget and not burst.pull_only else budget


def _next_burst(head: Head, mention: Mention, *, now: datetime, pull_only: bool = False) -> Burst:
    opened_at = max(now, min(mention.accepted_at, now + MAX_OPENING_LEAD))
    if head.last_opened_at is not None:
        opened_at = max(opened_at, head.last_opened_at + MIN_OPENING_GAP)
    return Burst.opened_by(
        mention,
        key=BurstKey(head.subject, head.seq + 1),
        version=head.version,
        opened_at=opened_at,
        first_of_day=_is_first_of_day(head, mention, opened_at),
        pull_only=pull_only,
    )


def _with_opening(head: Head, burst: Burst) -> Head:
    first = _as_first_of_day(burst) if burst.first_of_day else head.first
    return replace(head, seq=burst.key.seq, last_opened_at=burst.opened_at, first=first)


def _as_first_of_day(burst: Burst) -> FirstBurstOfDay:
    return FirstBurstOfDay(seq=burst.key.seq, day=burst.opened_at.date())


def _is_first_of_day(head: Head, mention: Mention, opened_at: datetime) -> bool:
    """Return whether the mention opens the first public burst of a day.

    A restricted burst never counts as the first: users who can't see it would miss the first of the day.
    """
    return not mention.protected and (head.first is None or head.first.day < opened_at.date())


def _with_new_opening_times(
    outbox: Sequence[Burst], seqs: Collection[int], *, now: datetime, version: int
) -> tuple[Burst, ...]:
    # Opening times of a subject are distinct: new ones are later than those that other bursts keep.
    opened_at = max([now, *(burst.opened_at + MIN_OPENING_GAP for burst in outbox if burst.key.seq not in seqs)])
    bursts: list[Burst] = []
    for burst in outbox:
        if burst.key.seq in seqs:
            is_first = _is_first_after_move(burst, opened_at, bursts)
            bursts.append(replace(burst, opened_at=opened_at, version=version, first_of_day=is_first))
            opened_at += MIN_OPENING_GAP
        else:
            bursts.append(burst)
    return tuple(bursts)


def _is_first_after_move(burst: Burst, opened_at: datetime, earlier: Sequence[Burst]) -> bool:
    """Return whether the burst is the first of its day at its new opening time.

    A public burst that moves past midnight becomes the first of the new day, unless an earlier burst already is.
    """
    days_with_first = [b.opened_at.date() for b in earlier if b.first_of_day]
    is_new_day = burst.restricted_to is None and opened_at.date() > burst.opened_at.date()
    return (burst.first_of_day or is_new_day) and opened_at.date() not in days_with_first


def _with_mention(head: Head, burst: Burst, mention: Mention, *, budget: TokenBucket | None, is_public: bool) -> Head:
    outbox = {b.key: b for b in head.outbox} | {burst.key: burst}
    return replace(
        head,
        open=burst if is_public else head.open,
        # A subject that needs no budget now keeps its bucket, because it may grow.
        budget=budget or head.budget,
        outbox=tuple(outbox.values()),
        sequenced=(*head.sequenced, SequencedMention(mention=mention, seq=burst.key.seq)),
    )


def _refilled(budget: TokenBucket | None, policy: Policy, mention: Mention, now: datetime) -> TokenBucket | None:
    """Return the refilled bucket; None if fan-outs need no budget."""
    if not policy.needs_budget(mention.followers):
        return None
    limit = fanout_limit(policy)
    return (budget or TokenBucket.full(limit, now)).refilled(limit, now)


# Fan-out budget: while it is empty, the collapse window of a subject stays open, unless collapsing is switched off.


def fanout_limit(policy: Policy) -> BucketLimit:
    return BucketLimit(capacity=policy.budget_capacity, refill=policy.budget_refill)


def is_collapse_window_over(
    budget: TokenBucket | None, *, opened_at: datetime, collapse: timedelta, now: datetime
) -> bool:
    if collapse == timedelta(0):
        return True
    return now >= opened_at + collapse and has_budget(budget)


def has_budget(budget: TokenBucket | None) -> bool:
    """Return whether one more fan-out is affordable. None is a subject without a budget."""
    return budget is None or budget.has_token
