"""Walk a user's daily digests, newest first, each computed from the canonical bursts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import groupby

from notifier.domain.bursts.burst import Burst, expires_at
from notifier.domain.ids import BurstKey, Kind, Subject
from notifier.domain.users.digest import GATHERED, Digest, Schedule, date_in, digest_of, gathered, named
from notifier.flow.inbox.burst_walk import BEFORE_ALL
from notifier.flow.inbox.page import InboxView
from notifier.ports.inbox import InboxPosition, Timeline

A_DAY = GATHERED + 1
"""Bursts per read: one day's worth, and one more that shows whether there are others. Quiet days share a read."""


@dataclass(slots=True, kw_only=True)
class Digests:
    """Walk through the days that are due and within retention.

    Without digested subjects it ends at once and reads nothing.
    """

    timeline: Timeline
    look: InboxView
    after: InboxPosition | None
    """The walk starts behind this position. Later it is directly before the next day's position."""
    ended: bool = False
    subjects: Collection[Subject] = field(init=False)
    schedule: Schedule = field(init=False)
    day: date = field(init=False)

    def __post_init__(self) -> None:
        self.subjects = self.look.digested
        self.ended = not self.subjects
        if not self.ended:
            self.schedule = Schedule.of(self.look.viewer.overall)
            self._go_to(self._first())

    async def step(self) -> Sequence[Digest]:
        """Return the digests of the next days, possibly none. Raises StoreUnavailable."""
        place = InboxPosition(self.schedule.moment(self.day), BEFORE_ALL)
        run = await self.timeline.before(self.subjects, place, A_DAY, self.look.viewer.authors)
        days = [
            (day, [*bursts]) for day, bursts in groupby(run, key=lambda burst: self.schedule.day_of(burst.opened_at))
        ]
        if len(run) < A_DAY:
            self.ended = True
        elif len(days) > 1:  # the last day is cut off; the next step reads all of it
            self._go_to(days.pop()[0])
        else:
            self._go_to(self.schedule.before(days[0][0]))
        return [digest for day, bursts in days if (digest := self._of(day, bursts))]

    def _of(self, day: date, bursts: Sequence[Burst]) -> Digest | None:
        return digest_of(self.look.viewer, day, bursts, self.look.now)

    def _first(self) -> date:
        day = self.schedule.last(self.look.now if self.after is None else min(self.look.now, self.after.opened_at))
        while self.after is not None and self._place(day) >= self.after:
            day = self.schedule.before(day)
        return day

    def _go_to(self, day: date) -> None:
        self.day, key = day, named(self.look.viewer.user, day)
        due = self.schedule.moment(day)
        self.after = InboxPosition(due, BurstKey(key.subject, key.seq + 1))
        self.ended = expires_at(due) <= self.look.now

    def _place(self, day: date) -> InboxPosition:
        return InboxPosition(self.schedule.moment(day), named(self.look.viewer.user, day))


async def digests_by(timeline: Timeline, look: InboxView, keys: Collection[BurstKey]) -> dict[BurstKey, Digest]:
    """Return the viewer's own digests with these keys, including hidden ones.

    Quiet days share a read, and no day takes more than one. Raises StoreUnavailable.
    """
    waiting, digests = sorted({*_days(look, keys)}, reverse=True), list[Digest | None]()
    while waiting:
        opened = await _opened(timeline, look, waiting)
        digests += [digest_of(look.viewer, day, bursts, look.now) for day, bursts in opened.items()]
        waiting = waiting[len(opened) :]
    return {digest.key: digest for digest in digests if digest}


def _days(look: InboxView, keys: Collection[BurstKey]) -> Iterator[date]:
    """Yield the days that are due and within retention."""
    schedule, own = Schedule.of(look.viewer.overall), Subject(Kind.DIGEST, look.viewer.user)
    if not look.digested:
        return
    for key in keys:
        day = date_in(key) if key.subject == own else None
        due = None if day is None else schedule.due(day)
        if day is not None and due is not None and due <= look.now < expires_at(due):
            yield day


async def _opened(timeline: Timeline, look: InboxView, days: Sequence[date]) -> Mapping[date, Sequence[Burst]]:
    """Return the bursts of the first day, and of all other days that the same read covers completely.

    `days` are ordered newest first.
    """
    schedule = Schedule.of(look.viewer.overall)
    until, since = InboxPosition(schedule.moment(days[0]), BEFORE_ALL), schedule.moment(schedule.before(days[-1]))
    run = await timeline.before(look.digested, until, A_DAY, look.viewer.authors, since)
    by_day = {day: [*bursts] for day, bursts in groupby(run, key=lambda burst: schedule.day_of(burst.opened_at))}
    # The last day is cut off. If it is also the first, the read still has all bursts that its digest contains.
    cut = None if len(run) < A_DAY else [*by_day][-1]
    return {day: by_day.get(day, []) for day in days if cut is None or day > cut or day == days[0]}


def due_next(look: InboxView, after: datetime) -> datetime | None:
    """Return when the viewer's next digest after a moment falls due; None for viewers without digests."""
    return Schedule.of(look.viewer.overall).due_of(after) if look.digested else None


def told_at(burst: Burst, look: InboxView) -> datetime:
    """Return when the digest that contains the burst falls due."""
    return Schedule.of(look.viewer.overall).due_of(burst.opened_at)


def moved_inside(burst: Burst, before: Burst | None, look: InboxView) -> bool:
    """Return whether a digest of the viewer lost something, or got this burst late.

    Growth does not count: it is on the next page. Neither do bursts that the viewer could never see. `before` is None
    for a burst that was not known.
    """
    if before is not None and burst.count >= before.count and burst.silent is before.silent:
        return False
    return gathered(before or burst.once, look.viewer, look.now)
