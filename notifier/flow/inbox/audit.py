"""Audit: recompute an answered list and badge from the canonical bursts, and report differences.

It walks the bursts by itself, without the pull index, the inbox rows or the inbox's own walk. So a match means that two
independent computations agree.
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
"""Sorts after every date that can name a digest."""

LOGGER = logging.getLogger("notifier.audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    people: People
    timeline: Timeline
    metrics: Metrics
    pause: Callable[[float], Awaitable[object]]
    """Sleeps for the given seconds before a difference is checked again."""

    async def compare(self, opened: OpenedInbox) -> None:
        """Recompute an answer; log and count it if it differs.

        A difference counts if it is still there after a pause, and the viewer's facts are unchanged. Partial pages are
        skipped, because they do not claim completeness. So are answers that reach further down than a page ever walks.
        Raises StoreUnavailable.
        """
        if opened.page is not None and opened.page.partial:
            return
        wrong = await self._wrong(opened)
        if wrong:
            await self.pause(SETTLED_AFTER.total_seconds())
            wrong = await self._wrong(opened)
        # Check the viewer last: a mark or follow written at any time since the answer explains the difference.
        if wrong and await self._same_viewer(opened.look):
            self.metrics.drifts.inc()
            LOGGER.error("member %d: %s", opened.look.member, "; ".join(wrong))
        self.metrics.audits.inc()

    async def _wrong(self, opened: OpenedInbox) -> Sequence[str]:
        view, bursts, digests = opened.look, await self._bursts(opened), await self._digests(opened)
        if bursts is None or digests is None:
            return ()
        keys = [key for key in _kept(view) if key.subject.kind is not Kind.DIGEST]
        kept = [*(await self.timeline.bursts(keys)).values()] if keys else []
        listed: list[Entry] = [burst for burst in bursts if view.admits(burst)]
        retracted: list[Entry] = [
            burst for burst in (*bursts, *kept) if not view.admits(burst) and view.admits(burst.once)
        ]
        for current, original in digests:
            (listed if current else retracted).append(current or original)
        listed.sort(key=place_of, reverse=True)
        return list(differences(opened, listed, [burst for burst in kept if view.admits(burst)], retracted))

    async def _bursts(self, opened: OpenedInbox) -> Sequence[Burst] | None:
        """Return all bursts that the viewer sees, or saw before they were retracted, newest first.

        Reads as far down as list and badge reach; None if that is too far.
        """
        bursts, place = list[Burst](), None
        for _ in range(STEPS):
            run = await self.timeline.before(opened.look.subjects, place, RUN)
            bursts += [burst for burst in run if opened.look.admits(burst.once)]
            if len(run) < RUN or _reached(opened, place_of(run[-1]), bursts):
                return bursts
            place = place_of(run[-1])
        return None

    async def _digests(self, opened: OpenedInbox) -> Sequence[tuple[Digest | None, Digest]] | None:
        """Return each day's digest as it is now, and as it may have been before retractions.

        Reads as far down as list and badge reach; None if that is too far. A day counts once all of it was read.
        """
        view, bursts, place = opened.look, list[Burst](), None
        kept = [key.seq for key in _kept(view) if key.subject.kind is Kind.DIGEST]
        while view.digested and len(bursts) < STEPS * RUN:
            run = await self.timeline.before(view.digested, place, RUN)
            bursts += run
            days, originals = [*_by_day(view, bursts)], [*_by_day(view, [burst.once for burst in bursts])]
            ended = len(run) < RUN
            both = [(current, digest) for (_, current), (_, digest) in zip(days, originals, strict=True)]
            whole = [
                (current, original)
                for current, original in (both if ended else both[:-1])
                if original and view.admits(original)
            ]
            listed = [digest for _, digest in whole]
            if ended or (_reached(opened, days[-1][0], listed) and days[-1][0].burst.seq < min(kept, default=LATER)):
                return whole
            place = place_of(run[-1])
        return None if view.digested else ()

    async def _same_viewer(self, look: InboxView) -> bool:
        return await self.people.viewer(look.viewer.user, look.member) == look.viewer


def _kept(look: InboxView) -> Iterator[BurstKey]:
    """Yield the keys that the viewer marked unread."""
    return (key for key, mark in look.viewer.marks.by_burst.items() if mark is Mark.UNREAD)


def differences(
    opened: OpenedInbox, listed: Sequence[Entry], kept: Collection[Burst], gone: Collection[Entry]
) -> Iterator[str]:
    """Describe each difference between the answer and the recomputed entries.

    `kept` are bursts marked unread, however old. `gone` are retracted entries: the answer may have had them.
    """
    if opened.page is not None:
        yield from _of_list(opened, opened.page, listed, {entry.key for entry in gone})
    if opened.badge is not None:
        counted = {entry.key: entry for entry in (*listed, *kept)}
        yield from _of_badge(opened.look, opened.badge, counted.values(), {entry.key: entry for entry in gone}.values())


def _of_list(opened: OpenedInbox, page: Page, listed: Sequence[Entry], gone: Collection[BurstKey]) -> Iterator[str]:
    view, after, end = opened.look, opened.after, page.next
    within = [b for b in listed if (after is None or place_of(b) < after) and (end is None or place_of(b) >= end)]
    shown_entries = [item.entry for item in page.items]
    # A burst that was re-stamped meanwhile has another position, and rightly so.
    shown_at, listed_at = ({entry.key: entry.opened_at for entry in entries} for entries in (shown_entries, listed))
    moved = {key for key, at in shown_at.items() if listed_at.get(key, at) != at}
    skipped = moved | {*gone} | {entry.key for entry in (*shown_entries, *within) if not _settled(view, entry)}
    shown = [(item.entry.key, item.unread) for item in page.items if item.entry.key not in skipped]
    stored = [(entry.key, unread(entry, view.viewer)) for entry in within if entry.key not in skipped]
    if shown != stored:
        yield f"the list is [{_told(shown)}], and must be [{_told(stored)}]"


def _of_badge(look: InboxView, badge: Badge, listed: Collection[Entry], gone: Collection[Entry]) -> Iterator[str]:
    """Compare the badge with a range: unsettled and retracted entries may have been counted or not."""
    counted = [entry for entry in listed if unread(entry, look.viewer)]
    least, most = sum(_settled(look, entry) for entry in counted), len(counted)
    most += sum(unread(entry, look.viewer) for entry in gone)
    answered = BADGE_MOST + 1 if badge.more else badge.count
    if not min(least, BADGE_MOST + 1) <= answered <= min(most, BADGE_MOST + 1):
        yield f"the badge is {answered}, and must be {least} to {most}"


def _settled(look: InboxView, entry: Entry) -> bool:
    """Return whether the entry looked the same at the answer and now.

    Younger entries may have become visible in between. A burst with a blocked mentioner may appear with its next
    mentioner, and a digest with its first visible burst.
    """
    bursts = entry.newest if isinstance(entry, Digest) else (entry,)
    blocked = all(any(name in look.viewer.blocked for name in burst.mentioners) for burst in bursts)
    return entry.opened_at <= look.now - SETTLED_AFTER and not blocked


def _by_day(look: InboxView, opened: Sequence[Burst]) -> Iterator[tuple[InboxPosition, Digest | None]]:
    """Yield each day's digest with its position; None if the day has no digest."""
    viewer, schedule = look.viewer, Schedule.of(look.viewer.overall)
    for day, bursts in groupby(opened, key=lambda burst: schedule.day_of(burst.opened_at)):
        due, included = schedule.moment(day), [b for b in bursts if b.restricted_to in {None, *viewer.authors}]
        digest = digest_of(viewer, day, included, look.now) if due <= look.now else None
        yield InboxPosition(due, named(viewer.user, day)), digest


def _reached(opened: OpenedInbox, last: InboxPosition, found: Sequence[Entry]) -> bool:
    view, page = opened.look, opened.page
    if page is not None and (page.next is None or last > page.next):
        return False
    seen_at = view.viewer.marks.seen_at
    if opened.badge is None or (seen_at is not None and last.opened_at <= seen_at):
        return True
    return sum(_settled(view, entry) and unread(entry, view.viewer) for entry in found) > BADGE_MOST


def _told(listed: Sequence[tuple[BurstKey, bool]]) -> str:
    """Format entries by their keys only: user content must not appear in logs."""
    return ", ".join(f"{key}{'*' if new else ''}" for key, new in listed)
