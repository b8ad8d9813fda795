"""The audit: a list and badge that somebody was given, computed again at the same moment from the bursts alone.

It walks the canonical bursts by itself, without pull index, rows and the tab's own walk: what agrees was found twice.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind
from notifier.domain.users.digest import Digest, Schedule, digest_of, named
from notifier.domain.users.visibility import SETTLED_AFTER, Mark, unread
from notifier.flow.inbox.burst_walk import RUN, place_of
from notifier.flow.inbox.evaluation import STEPS
from notifier.flow.inbox.page import BADGE_MOST, Badge, Entry, InboxView, OpenedInbox, Page
from notifier.metrics import Metrics
from notifier.ports.inbox import InboxPosition, Timeline
from notifier.ports.users import People

LATER = 100_000_000
"""Than every date that a digest is named by."""

LOGGER = logging.getLogger("notifier.audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    people: People
    timeline: Timeline
    metrics: Metrics
    pause: Callable[[float], Awaitable[object]]
    """Waits some seconds before a difference is looked at once more."""

    async def compare(self, opened: OpenedInbox) -> None:
        """A difference counts when it is still there after a pause, and the viewer is still the same.

        Raises StoreUnavailable. A partial page claims nothing, and what reaches further down than a page ever walks is
        left alone.
        """
        if opened.page is not None and opened.page.partial:
            return
        wrong = await self._wrong(opened)
        if wrong:
            await self.pause(SETTLED_AFTER.total_seconds())
            wrong = await self._wrong(opened)
        # The viewer last: a mark or a follow written at any time since the answer explains the difference.
        if wrong and await self._same_viewer(opened.look):
            self.metrics.drifts.inc()
            LOGGER.error("member %d: %s", opened.look.member, "; ".join(wrong))
        self.metrics.audits.inc()

    async def _wrong(self, opened: OpenedInbox) -> Sequence[str]:
        look, bursts, digests = opened.look, await self._bursts(opened), await self._digests(opened)
        if bursts is None or digests is None:
            return ()
        keys = [key for key in _kept(look) if key.subject.kind is not Kind.DIGEST]
        kept = [*(await self.timeline.bursts(keys)).values()] if keys else []
        listed: list[Entry] = [burst for burst in bursts if look.admits(burst)]
        gone: list[Entry] = [burst for burst in (*bursts, *kept) if not look.admits(burst) and look.admits(burst.once)]
        for stands, once in digests:
            (listed if stands else gone).append(stands or once)
        listed.sort(key=place_of, reverse=True)
        return list(differences(opened, listed, [burst for burst in kept if look.admits(burst)], gone))

    async def _bursts(self, opened: OpenedInbox) -> Sequence[Burst] | None:
        """All that the viewer sees, or did before it was taken back, newest first, as far down as list and badge reach;
        None when that is too far."""
        found, place = list[Burst](), None
        for _ in range(STEPS):
            run = await self.timeline.before(opened.look.subjects, place, RUN)
            found += [burst for burst in run if opened.look.admits(burst.once)]
            if len(run) < RUN or _reached(opened, place_of(run[-1]), found):
                return found
            place = place_of(run[-1])
        return None

    async def _digests(self, opened: OpenedInbox) -> Sequence[tuple[Digest | None, Digest]] | None:
        """The same of what a digest tells of, day by day, as it stands and as it may have; a day counts once all of it
        was read."""
        look, found, place = opened.look, list[Burst](), None
        kept = [key.seq for key in _kept(look) if key.subject.kind is Kind.DIGEST]
        while look.digested and len(found) < STEPS * RUN:
            run = await self.timeline.before(look.digested, place, RUN)
            found += run
            days, once = [*_by_day(look, found)], [*_by_day(look, [burst.once for burst in found])]
            ended = len(run) < RUN
            both = [(stands, digest) for (_, stands), (_, digest) in zip(days, once, strict=True)]
            whole = [(stands, ever) for stands, ever in (both if ended else both[:-1]) if ever and look.admits(ever)]
            listed = [digest for _, digest in whole]
            if ended or (_reached(opened, days[-1][0], listed) and days[-1][0].burst.seq < min(kept, default=LATER)):
                return whole
            place = place_of(run[-1])
        return None if look.digested else ()

    async def _same_viewer(self, look: InboxView) -> bool:
        return await self.people.viewer(look.viewer.user, look.member) == look.viewer


def _kept(look: InboxView) -> Iterator[BurstKey]:
    """What its viewer marked unread."""
    return (key for key, mark in look.viewer.marks.by_burst.items() if mark is Mark.UNREAD)


def differences(
    opened: OpenedInbox, listed: Sequence[Entry], kept: Collection[Burst], gone: Collection[Entry]
) -> Iterator[str]:
    """`kept` are those marked unread, however old; `gone` what was taken back: the answer may have had it."""
    if opened.page is not None:
        yield from _of_list(opened, opened.page, listed, {entry.key for entry in gone})
    if opened.badge is not None:
        counted = {entry.key: entry for entry in (*listed, *kept)}
        yield from _of_badge(opened.look, opened.badge, counted.values(), {entry.key: entry for entry in gone}.values())


def _of_list(opened: OpenedInbox, page: Page, listed: Sequence[Entry], gone: Collection[BurstKey]) -> Iterator[str]:
    look, after, end = opened.look, opened.after, page.next
    within = [b for b in listed if (after is None or place_of(b) < after) and (end is None or place_of(b) >= end)]
    given = [item.entry for item in page.items]
    # A burst that was re-stamped meanwhile stands elsewhere, and rightly so.
    shown_at, stands_at = ({entry.key: entry.opened_at for entry in some} for some in (given, listed))
    moved = {key for key, at in shown_at.items() if stands_at.get(key, at) != at}
    skipped = moved | {*gone} | {entry.key for entry in (*given, *within) if not _settled(look, entry)}
    shown = [(item.entry.key, item.unread) for item in page.items if item.entry.key not in skipped]
    stored = [(entry.key, unread(entry, look.viewer)) for entry in within if entry.key not in skipped]
    if shown != stored:
        yield f"the list is [{_told(shown)}], and must be [{_told(stored)}]"


def _of_badge(look: InboxView, badge: Badge, listed: Collection[Entry], gone: Collection[Entry]) -> Iterator[str]:
    """What isn't settled, or is gone, may have been counted, or not."""
    counted = [entry for entry in listed if unread(entry, look.viewer)]
    least, most = sum(_settled(look, entry) for entry in counted), len(counted)
    most += sum(unread(entry, look.viewer) for entry in gone)
    says = BADGE_MOST + 1 if badge.more else badge.count
    if not min(least, BADGE_MOST + 1) <= says <= min(most, BADGE_MOST + 1):
        yield f"the badge is {says}, and must be {least} to {most}"


def _settled(look: InboxView, entry: Entry) -> bool:
    """Seen alike at the answer and now: younger ones may have become visible in between, and one that somebody blocked
    takes part in comes into view with its next mentioner; a digest with the first that it tells of.
    """
    bursts = entry.newest if isinstance(entry, Digest) else (entry,)
    blocked = all(any(name in look.viewer.blocked for name in burst.mentioners) for burst in bursts)
    return entry.opened_at <= look.now - SETTLED_AFTER and not blocked


def _by_day(look: InboxView, opened: Sequence[Burst]) -> Iterator[tuple[InboxPosition, Digest | None]]:
    """Where each day's digest would stand, and the digest."""
    viewer, schedule = look.viewer, Schedule.of(look.viewer.overall)
    for day, bursts in groupby(opened, key=lambda burst: schedule.day_of(burst.opened_at)):
        due, told = schedule.moment(day), [b for b in bursts if b.restricted_to in {None, *viewer.authors}]
        digest = digest_of(viewer, day, told, look.now) if due <= look.now else None
        yield InboxPosition(due, named(viewer.user, day)), digest


def _reached(opened: OpenedInbox, last: InboxPosition, found: Sequence[Entry]) -> bool:
    look, page = opened.look, opened.page
    if page is not None and (page.next is None or last > page.next):
        return False
    seen_at = look.viewer.marks.seen_at
    if opened.badge is None or (seen_at is not None and last.opened_at <= seen_at):
        return True
    return sum(_settled(look, entry) and unread(entry, look.viewer) for entry in found) > BADGE_MOST


def _told(listed: Sequence[tuple[BurstKey, bool]]) -> str:
    """By keys alone: what people wrote is no business of a log."""
    return ", ".join(f"{key}{'*' if new else ''}" for key, new in listed)
