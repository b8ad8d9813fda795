"""Walk a user's digests, newest first, computed from bursts of the store."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import groupby

from notifier.domain.bursts.burst import Burst, expires_at
from notifier.domain.ids import BurstKey, Kind, Subject
from notifier.domain.users.digest import (
    MAX_EXAMINED_BURSTS,
    Digest,
    DigestSchedule,
    date_of,
    digest_key,
    digest_of,
    is_in_digest,
)
from notifier.flow.inbox.burst_walk import LOWEST_KEY
from notifier.flow.inbox.page import InboxView
from notifier.ports.inbox import InboxPosition, Timeline

DAY_READ_LIMIT = MAX_EXAMINED_BURSTS + 1
"""Bursts per read: all that a digest examines, and one more that shows whether the read was cut off. Days with few
bursts share a read."""


@dataclass(slots=True, kw_only=True)
class DigestWalk:
    """Walk through the viewer's digests that are due and not expired."""

    timeline: Timeline
    view: InboxView
    after: InboxPosition | None
    """Position that the walk has reached: just newer than the digest of `day`, which the next step reads first."""
    has_ended: bool = False
    subjects: Collection[Subject] = field(init=False)
    schedule: DigestSchedule = field(init=False)
    day: date = field(init=False)

    def __post_init__(self) -> None:
        self.subjects = self.view.digest_subjects
        self.has_ended = not self.subjects
        if not self.has_ended:
            self.schedule = DigestSchedule.of(self.view.viewer.account_preferences)
            self._go_to(self._first_day())

    async def step(self) -> Sequence[Digest]:
        """Return the digests of the next older days, possibly none. Raises StoreUnavailable."""
        until = InboxPosition(self.schedule.due_time(self.day), LOWEST_KEY)
        run = await self.timeline.older_than(self.subjects, until, DAY_READ_LIMIT, self.view.viewer.readable_authors)
        days = [
            (day, [*bursts]) for day, bursts in groupby(run, key=lambda burst: self.schedule.day_of(burst.opened_at))
        ]
        if len(run) < DAY_READ_LIMIT:
            self.has_ended = True
        elif len(days) > 1:  # the oldest day may be cut off; the next step reads it again
            self._go_to(days.pop()[0])
        else:  # the only day has more bursts than a digest examines: skip the rest
            self._go_to(self.schedule.previous_date(days[0][0]))
        return [digest for day, bursts in days if (digest := self._digest(day, bursts))]

    def _digest(self, day: date, bursts: Sequence[Burst]) -> Digest | None:
        return digest_of(self.view.viewer, day, bursts, self.view.now)

    def _first_day(self) -> date:
        day = self.schedule.latest_due_date(
            self.view.now if self.after is None else min(self.view.now, self.after.opened_at)
        )
        while self.after is not None and self._position(day) >= self.after:
            day = self.schedule.previous_date(day)
        return day

    def _go_to(self, day: date) -> None:
        self.day, key = day, digest_key(self.view.viewer.user, day)
        due = self.schedule.due_time(day)
        self.after = InboxPosition(due, BurstKey(key.subject, key.seq + 1))
        self.has_ended = expires_at(due) <= self.view.now

    def _position(self, day: date) -> InboxPosition:
        return InboxPosition(self.schedule.due_time(day), digest_key(self.view.viewer.user, day))


async def read_digests(timeline: Timeline, view: InboxView, keys: Collection[BurstKey]) -> dict[BurstKey, Digest]:
    """Return the viewer's own digests with these keys, including hidden digests. Raises StoreUnavailable."""
    days, digests = sorted({*_due_days(view, keys)}, reverse=True), list[Digest | None]()
    while days:
        bursts_by_day = await _read_days(timeline, view, days)
        digests += [digest_of(view.viewer, day, bursts, view.now) for day, bursts in bursts_by_day.items()]
        days = days[len(bursts_by_day) :]
    return {digest.key: digest for digest in digests if digest}


def _due_days(view: InboxView, keys: Collection[BurstKey]) -> Iterator[date]:
    """Yield the days of the viewer's own digests among the keys, if the digest is due and not expired."""
    schedule, own_subject = DigestSchedule.of(view.viewer.account_preferences), Subject(Kind.DIGEST, view.viewer.user)
    if not view.digest_subjects:
        return
    for key in keys:
        day = date_of(key) if key.subject == own_subject else None
        due = None if day is None else schedule.due_time_or_none(day)
        if day is not None and due is not None and due <= view.now < expires_at(due):
            yield day


async def _read_days(timeline: Timeline, view: InboxView, days: Sequence[date]) -> Mapping[date, Sequence[Burst]]:
    """Return the bursts of the first day, and of all other days that the same read covers completely.

    `days` are ordered newest first.
    """
    schedule = DigestSchedule.of(view.viewer.account_preferences)
    until, since = (
        InboxPosition(schedule.due_time(days[0]), LOWEST_KEY),
        schedule.due_time(schedule.previous_date(days[-1])),
    )
    run = await timeline.older_than(view.digest_subjects, until, DAY_READ_LIMIT, view.viewer.readable_authors, since)
    bursts_by_day = {day: [*bursts] for day, bursts in groupby(run, key=lambda burst: schedule.day_of(burst.opened_at))}
    # A full read may cut off its oldest day. A full read of one day has all bursts that a digest examines.
    cut_day = None if len(run) < DAY_READ_LIMIT else [*bursts_by_day][-1]
    return {day: bursts_by_day.get(day, []) for day in days if cut_day is None or day > cut_day or day == days[0]}


def next_digest_due(view: InboxView, after: datetime) -> datetime | None:
    """Return when the viewer's next digest after the given time falls due; None for viewers without digests."""
    return DigestSchedule.of(view.viewer.account_preferences).next_due_time(after) if view.digest_subjects else None


def digest_due_for(burst: Burst, view: InboxView) -> datetime:
    return DigestSchedule.of(view.viewer.account_preferences).next_due_time(burst.opened_at)


def changes_digest(burst: Burst, before: Burst | None, view: InboxView) -> bool:
    """Return whether a change of this burst may change what a digest of the viewer has shown.

    Growth does not count: the next page shows it anyway. `before` is the burst's earlier state, None if not known.
    """
    if before is not None and burst.count >= before.count and burst.silent is before.silent:
        return False
    return is_in_digest(before or burst.before_retraction, view.viewer, view.now)
