"""The audit: a list and badge that somebody was given, computed again at the same moment from the bursts alone.

It walks the canonical bursts by itself, without pull index, rows and the tab's own walk: what agrees was found twice.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from notifier.domain.burst import Burst
from notifier.domain.marks import SETTLED_AFTER, Mark
from notifier.domain.subject import BurstKey
from notifier.domain.visible import unread
from notifier.flow.page import BADGE_MOST, Badge, Look, Opened, Page
from notifier.flow.tab import STEPS
from notifier.flow.walk import RUN, place_of
from notifier.ports.people import People
from notifier.ports.timeline import Timeline
from notifier.telemetry import Metrics

LOGGER = logging.getLogger("notifier.audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    people: People
    timeline: Timeline
    metrics: Metrics
    pause: Callable[[], Awaitable[object]]
    """Before a difference is looked at once more."""

    async def __call__(self, opened: Opened) -> None:
        """A difference counts when it is still there after a pause, and the viewer is still the same.

        Raises StoreUnavailable. A partial page claims nothing, and what reaches further down than a page ever walks is
        left alone.
        """
        if opened.page is not None and opened.page.partial:
            return
        wrong = await self._wrong(opened)
        if wrong:
            await self.pause()
            wrong = await self._wrong(opened)
        # The viewer last: a mark or a follow written at any time since the answer explains the difference.
        if wrong and await self._same_viewer(opened.look):
            self.metrics.drifts.inc()
            LOGGER.error("member %d: %s", opened.look.member, "; ".join(wrong))
        self.metrics.audits.inc()

    async def _wrong(self, opened: Opened) -> Sequence[str]:
        bursts = await self._bursts(opened)
        if bursts is None:
            return ()
        kept = [key for key, mark in opened.look.viewer.marks.by_burst.items() if mark is Mark.UNREAD]
        found = (await self.timeline.bursts(kept)).values() if kept else ()
        return list(differences(opened, bursts, [burst for burst in found if opened.look.admits(burst)]))

    async def _bursts(self, opened: Opened) -> Sequence[Burst] | None:
        """All that the viewer sees, newest first, as far down as list and badge reach; None when that is too far."""
        found, place = list[Burst](), None
        for _ in range(STEPS):
            run = await self.timeline.before(opened.look.subjects, place, RUN)
            found += [burst for burst in run if opened.look.admits(burst)]
            if len(run) < RUN or _reached(opened, run[-1], found):
                return found
            place = place_of(run[-1])
        return None

    async def _same_viewer(self, look: Look) -> bool:
        return await self.people.viewer(look.viewer.user, look.member) == look.viewer


def differences(opened: Opened, bursts: Sequence[Burst], kept: Collection[Burst]) -> Iterator[str]:
    """`kept` are those marked unread, however old."""
    if opened.page is not None:
        yield from _of_list(opened, opened.page, bursts)
    if opened.badge is not None:
        yield from _of_badge(opened.look, opened.badge, {burst.key: burst for burst in (*bursts, *kept)}.values())


def _of_list(opened: Opened, page: Page, bursts: Sequence[Burst]) -> Iterator[str]:
    look, after, end = opened.look, opened.after, page.next
    within = [b for b in bursts if (after is None or place_of(b) < after) and (end is None or place_of(b) >= end)]
    given = [item.burst for item in page.items]
    # A burst that was re-stamped meanwhile stands elsewhere, and rightly so.
    shown_at, stands_at = ({burst.key: burst.opened_at for burst in some} for some in (given, bursts))
    moved = {key for key, at in shown_at.items() if stands_at.get(key, at) != at}
    skipped = moved | {burst.key for burst in (*given, *within) if not _settled(look, burst)}
    shown = [(item.burst.key, item.unread) for item in page.items if item.burst.key not in skipped]
    stored = [(burst.key, unread(burst, look.viewer)) for burst in within if burst.key not in skipped]
    if shown != stored:
        yield f"the list is [{_told(shown)}], and must be [{_told(stored)}]"


def _of_badge(look: Look, badge: Badge, bursts: Collection[Burst]) -> Iterator[str]:
    """What isn't settled may have been counted, or not."""
    counted = [burst for burst in bursts if unread(burst, look.viewer)]
    least, most = sum(_settled(look, burst) for burst in counted), len(counted)
    says = BADGE_MOST + 1 if badge.more else badge.count
    if not min(least, BADGE_MOST + 1) <= says <= min(most, BADGE_MOST + 1):
        yield f"the badge is {says}, and must be {least} to {most}"


def _settled(look: Look, burst: Burst) -> bool:
    """Seen alike at the answer and now: younger ones may have become visible in between, and one that somebody blocked
    takes part in comes into view with its next mentioner.
    """
    blocked = any(name in look.viewer.blocked for name in burst.mentioners)
    return burst.opened_at <= look.now - SETTLED_AFTER and not blocked


def _reached(opened: Opened, last: Burst, found: Sequence[Burst]) -> bool:
    look, page = opened.look, opened.page
    if page is not None and (page.next is None or place_of(last) > page.next):
        return False
    seen_at = look.viewer.marks.seen_at
    if opened.badge is None or (seen_at is not None and last.opened_at <= seen_at):
        return True
    return sum(_settled(look, burst) and unread(burst, look.viewer) for burst in found) > BADGE_MOST


def _told(listed: Sequence[tuple[BurstKey, bool]]) -> str:
    """By keys alone: what people wrote is no business of a log."""
    return ", ".join(f"{key}{'*' if new else ''}" for key, new in listed)
