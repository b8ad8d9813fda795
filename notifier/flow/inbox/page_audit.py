"""Audit: recompute an answered list and badge from the store; report differences.

The audit reads the bursts by itself, without the pull index, the inbox rows or the inbox's own walk. It shares the
rules with the inbox: the predicate, and which bursts a digest has.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind
from notifier.domain.users.digest import Digest, DigestSchedule, digest_key, digest_of
from notifier.domain.users.visibility import CERTAINLY_VISIBLE_AGE, Mark, is_unread
from notifier.flow.inbox.burst_walk import RUN_LENGTH, position_of
from notifier.flow.inbox.page import BADGE_LIMIT, Badge, Entry, InboxView, OpenedInbox, Page
from notifier.flow.inbox.page_and_unread_entries import MAX_RUNS
from notifier.metrics import Metrics
from notifier.ports.inbox import InboxPosition, Timeline
from notifier.ports.viewers_preferences_user_blocks import People

AFTER_ALL_DATES = 100_000_000
"""Number above those of all digests. The number of a digest is its date, such as 20261127."""

LOGGER = logging.getLogger("notifier.audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    people: People
    timeline: Timeline
    metrics: Metrics
    pause: Callable[[float], Awaitable[object]]
    """Sleeps for the given seconds before a difference is checked again."""

    async def compare(self, opened: OpenedInbox) -> None:
        """Recompute an answer; log and count a difference.

        A difference is reported only if it persists after a pause, and the viewer's facts are unchanged. Partial pages
        are skipped, and so are answers for which more than MAX_RUNS runs would have to be read.
        """
        if opened.page is not None and opened.page.partial:
            return
        found_differences = await self._differences(opened)
        if found_differences:
            await self.pause(CERTAINLY_VISIBLE_AGE.total_seconds())
            found_differences = await self._differences(opened)
        # Check the viewer last: a mark or follow written at any time since the answer explains the difference.
        if found_differences and await self._is_same_viewer(opened.view):
            self.metrics.inbox_differences.inc()
            LOGGER.error("inbox of member %d differs: %s", opened.view.member, "; ".join(found_differences))
        self.metrics.inbox_audits.inc()

    async def _differences(self, opened: OpenedInbox) -> Sequence[str]:
        view, bursts, digests = opened.view, await self._bursts(opened), await self._digests(opened)
        if bursts is None or digests is None:
            return ()
        keys = [key for key in _marked_unread(view) if key.subject.kind is not Kind.DIGEST]
        marked_unread = [*(await self.timeline.bursts(keys)).values()] if keys else []
        listed: list[Entry] = [burst for burst in bursts if view.is_visible(burst)]
        retracted: list[Entry] = [
            burst
            for burst in (*bursts, *marked_unread)
            if not view.is_visible(burst) and view.is_visible(burst.before_retraction)
        ]
        for current, original in digests:
            (listed if current else retracted).append(current or original)
        listed.sort(key=position_of, reverse=True)
        return list(
            differences(opened, listed, [burst for burst in marked_unread if view.is_visible(burst)], retracted)
        )

    async def _bursts(self, opened: OpenedInbox) -> Sequence[Burst] | None:
        """Return the bursts that the viewer sees, or saw before they were retracted, newest first.

        Reads as far down as list and badge reach. Returns None if that takes more than MAX_RUNS runs.
        """
        bursts, position = list[Burst](), None
        for _ in range(MAX_RUNS):
            run = await self.timeline.older_than(opened.view.subjects, position, RUN_LENGTH)
            bursts += [burst for burst in run if opened.view.is_visible(burst.before_retraction)]
            if len(run) < RUN_LENGTH or _has_reached(opened, position_of(run[-1]), bursts):
                return bursts
            position = position_of(run[-1])
        return None

    async def _digests(self, opened: OpenedInbox) -> Sequence[tuple[Digest | None, Digest]] | None:
        """Return the digests as they are now, and as they may have been before retractions.

        Reads as far down as list and badge reach. Returns None if that takes more than MAX_RUNS runs. A day is left out
        if not all of its bursts were read.
        """
        view, bursts, position = opened.view, list[Burst](), None
        marked_dates = [key.seq for key in _marked_unread(view) if key.subject.kind is Kind.DIGEST]
        while view.digest_subjects and len(bursts) < MAX_RUNS * RUN_LENGTH:
            run = await self.timeline.older_than(view.digest_subjects, position, RUN_LENGTH)
            bursts += run
            days, originals = [*_by_day(view, bursts)], [*_by_day(view, [burst.before_retraction for burst in bursts])]
            is_last_run = len(run) < RUN_LENGTH
            pairs = [(current, original) for (_, current), (_, original) in zip(days, originals, strict=True)]
            complete_days = [
                (current, original)
                for current, original in (pairs if is_last_run else pairs[:-1])
                if original and view.is_visible(original)
            ]
            listed = [original for _, original in complete_days]
            if is_last_run or (
                _has_reached(opened, days[-1][0], listed)
                and days[-1][0].burst.seq < min(marked_dates, default=AFTER_ALL_DATES)
            ):
                return complete_days
            position = position_of(run[-1])
        return None if view.digest_subjects else ()

    async def _is_same_viewer(self, view: InboxView) -> bool:
        return await self.people.viewer(view.viewer.user, view.member) == view.viewer


def _marked_unread(view: InboxView) -> Iterator[BurstKey]:
    return (key for key, mark in view.viewer.marks.by_burst.items() if mark is Mark.UNREAD)


def differences(
    opened: OpenedInbox, listed: Sequence[Entry], marked_unread: Collection[Burst], retracted: Collection[Entry]
) -> Iterator[str]:
    """Describe how the answer differs from the recomputed entries.

    `marked_unread` are the bursts that the viewer marked unread, however old. `retracted` are entries that the answer
    may have shown before they were retracted.
    """
    if opened.page is not None:
        yield from _list_differences(opened, opened.page, listed, {entry.key for entry in retracted})
    if opened.badge is not None:
        counted = {entry.key: entry for entry in (*listed, *marked_unread)}
        yield from _badge_differences(
            opened.view, opened.badge, counted.values(), {entry.key: entry for entry in retracted}.values()
        )


def _list_differences(
    opened: OpenedInbox, page: Page, listed: Sequence[Entry], retracted_keys: Collection[BurstKey]
) -> Iterator[str]:
    view, after, end = opened.view, opened.after, page.next
    expected = [
        b for b in listed if (after is None or position_of(b) < after) and (end is None or position_of(b) >= end)
    ]
    shown_entries = [item.entry for item in page.items]
    # A burst whose opening time has changed since the answer has another position, which is no difference.
    shown_times, listed_times = (
        {entry.key: entry.opened_at for entry in entries} for entries in (shown_entries, listed)
    )
    moved = {key for key, opened_at in shown_times.items() if listed_times.get(key, opened_at) != opened_at}
    skipped = (
        moved
        | {*retracted_keys}
        | {entry.key for entry in (*shown_entries, *expected) if not _was_certainly_visible(view, entry)}
    )
    shown = [(item.entry.key, item.unread) for item in page.items if item.entry.key not in skipped]
    recomputed = [(entry.key, is_unread(entry, view.viewer)) for entry in expected if entry.key not in skipped]
    if shown != recomputed:
        yield f"the list is [{_format_entries(shown)}], expected [{_format_entries(recomputed)}]"


def _badge_differences(
    view: InboxView, badge: Badge, listed: Collection[Entry], retracted: Collection[Entry]
) -> Iterator[str]:
    """Compare the badge with the lowest and the highest possible count.

    The answer may or may not have counted an entry that was not certainly visible yet, or was retracted.
    """
    counted = [entry for entry in listed if is_unread(entry, view.viewer)]
    lowest, highest = sum(_was_certainly_visible(view, entry) for entry in counted), len(counted)
    highest += sum(is_unread(entry, view.viewer) for entry in retracted)
    answered = BADGE_LIMIT + 1 if badge.more else badge.count
    if not min(lowest, BADGE_LIMIT + 1) <= answered <= min(highest, BADGE_LIMIT + 1):
        yield f"the badge is {answered}, expected {lowest} to {highest}"


def _was_certainly_visible(view: InboxView, entry: Entry) -> bool:
    """Return whether an entry that is visible now was certainly visible when the answer was made.

    An entry that was younger than CERTAINLY_VISIBLE_AGE may have become visible later. A burst with a blocked mentioner
    may have become visible when another mentioner joined it. The same holds for a digest whose `newest` are all such
    bursts.
    """
    bursts = entry.newest if isinstance(entry, Digest) else (entry,)
    has_blocked_mentioners = all(any(name in view.viewer.blocked for name in burst.mentioners) for burst in bursts)
    return entry.opened_at <= view.now - CERTAINLY_VISIBLE_AGE and not has_blocked_mentioners


def _by_day(view: InboxView, bursts: Sequence[Burst]) -> Iterator[tuple[InboxPosition, Digest | None]]:
    """Yield each day's digest with its position; None if the day has no digest."""
    viewer, schedule = view.viewer, DigestSchedule.of(view.viewer.account_preferences)
    for day, day_bursts in groupby(bursts, key=lambda burst: schedule.day_of(burst.opened_at)):
        due, included = (
            schedule.due_time(day),
            [b for b in day_bursts if b.restricted_to in {None, *viewer.readable_authors}],
        )
        digest = digest_of(viewer, day, included, view.now) if due <= view.now else None
        yield InboxPosition(due, digest_key(viewer.user, day)), digest


def _has_reached(opened: OpenedInbox, last: InboxPosition, entries: Sequence[Entry]) -> bool:
    """Return whether a walk that has reached the position `last` has all entries of the answer's list and badge."""
    view, page = opened.view, opened.page
    if page is not None and (page.next is None or last > page.next):
        return False
    seen_at = view.viewer.marks.seen_at
    if opened.badge is None or (seen_at is not None and last.opened_at <= seen_at):
        return True
    unread = [entry for entry in entries if is_unread(entry, view.viewer)]
    return sum(_was_certainly_visible(view, entry) for entry in unread) > BADGE_LIMIT


def _format_entries(listed: Sequence[tuple[BurstKey, bool]]) -> str:
    """Format entries by their keys only, with a star if unread: user content must not appear in logs."""
    return ", ".join(f"{key}{'*' if unread else ''}" for key, unread in listed)
