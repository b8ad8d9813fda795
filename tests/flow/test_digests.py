"""Digests in the inbox: busy and quiet days, marks, cost and changed preferences."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.digest import MAX_EXAMINED_BURSTS, MAX_LISTED_BURSTS, digest_key
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox.digest_walk import read_digests
from notifier.flow.inbox.inbox import UncachedInbox
from notifier.flow.inbox.page import DigestItem, Page
from notifier.ports.inbox import InboxPosition
from tests.properties.test_digests import drifts
from tests.support.domain_examples import EVE, burst
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.fakes.clock_and_nonces import START
from tests.support.fakes.inbox_rows_and_audience_snapshots import MemoryTimeline
from tests.support.in_memory_system import LYRA, NOVA, Openings, Stage
from tests.support.simulator.inbox_visits import run_sync

LEE = UserId("lee")
HOUR = timedelta(hours=1)
DUE = START.replace(hour=18, minute=0, second=0, microsecond=0)
"""The time of the first day's digest."""
DAY = timedelta(days=1)


@dataclass
class Reads:
    """A timeline that counts its reads."""

    port: MemoryTimeline
    count: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    async def older_than(self, *args: Any) -> Sequence[Burst]:
        self.count += 1
        return await self.port.older_than(*args)


@dataclass
class LeesInbox:
    """Lee has lyra as digest and nova individually; the clock is at 17:00 of the first day."""

    stage: Stage = field(default_factory=Stage)
    openings: Openings = field(default_factory=Openings)
    reads: Reads = field(init=False)

    def __post_init__(self) -> None:
        state = self.stage.state
        self.reads = Reads(state.timeline)
        state.people.volume(LEE, LYRA, Volume.DIGEST)
        state.people.volume(LEE, NOVA, Volume.ALL)
        self.move_clock_to(17)

    def move_clock_to(self, hours: float) -> None:
        """Move the clock to this many hours after midnight of the first day."""
        self.stage.state.clock.advance(DUE - 18 * HOUR + hours * HOUR - self.stage.state.clock.now())

    def open_bursts(self, number: int, *, ago: timedelta = HOUR, **fields: Any) -> None:
        """Open bursts a millisecond apart, starting `ago`."""
        bursts = self.stage.state.bursts.by_key
        subject = fields.pop("subject", LYRA)
        first = sum(key.subject == subject for key in bursts) + 1
        for n in range(number):
            at = self.stage.state.clock.now() - ago + n * timedelta(milliseconds=1)
            burst_ = burst(subject=subject, seq=first + n, opened_at=at, **fields)
            bursts[burst_.key] = burst_

    def uncached_inbox(self) -> UncachedInbox:
        return replace(self.stage.uncached_inbox(), timeline=self.reads, observers=[self.openings])

    def page(self, limit: int = 20, after: InboxPosition | None = None) -> Page:
        """Load a page and check that its badge agrees with the list."""
        page, badge = run_sync(self.uncached_inbox().open(LEE, limit=limit, after=after))
        if not page.partial:
            assert badge is not None
            assert drifts(self.stage, self.openings[-1]) == 0
        return page

    def badge(self) -> int:
        return run_sync(self.uncached_inbox().badge(LEE)).count

    def keys(self) -> list[str]:
        return [str(item.entry.key) for item in self.page().items]

    def mark(self, day: str, mark: Mark) -> None:
        run_sync(self.uncached_inbox().mark(LEE, [BurstKey(digest_key(LEE, DUE.date()).subject, int(day))], mark))


def digest_in(page: Page) -> DigestItem:
    [digest] = [item for item in page.items if isinstance(item, DigestItem)]
    return digest


def first_day() -> str:
    return f"{DUE:%Y%m%d}"


def test_digest_is_listed_from_its_hour_on() -> None:
    lee = LeesInbox()
    lee.open_bursts(3)
    lee.open_bursts(1, subject=NOVA)
    assert (lee.keys(), lee.badge()) == (["mention:nova#1"], 1)
    lee.move_clock_to(18 - 1 / 3600)
    assert (lee.keys(), lee.badge()) == (["mention:nova#1"], 1)
    lee.move_clock_to(18)
    assert (lee.keys(), lee.badge()) == ([f"digest:lee#{first_day()}", "mention:nova#1"], 2)
    item = digest_in(lee.page())
    assert (item.digest.opened_at, item.digest.accounts, item.unread) == (DUE, ((LYRA.owner, 3),), True)
    assert [inner.burst.key.seq for inner in item.bursts] == [3, 2, 1]


def test_each_day_with_bursts_has_one_digest_on_pages_of_any_length() -> None:
    lee = LeesInbox()
    for day, number in enumerate((3 * MAX_EXAMINED_BURSTS, 1, 0, MAX_EXAMINED_BURSTS, MAX_EXAMINED_BURSTS + 1, 2)):
        lee.move_clock_to(24 * day + 17)
        lee.open_bursts(number)
        lee.open_bursts(1, subject=NOVA, ago=HOUR / 2)
    lee.move_clock_to(24 * 5 + 19)
    for limit in (1, 2, 3, 20):
        items, page = list[Any](), lee.page(limit)
        while page.next is not None:
            items += page.items
            page = lee.page(limit, page.next)
        items += page.items
        days = [item for item in items if isinstance(item, DigestItem)]
        counts = [(item.digest.count, item.digest.more, len(item.bursts)) for item in days]
        assert counts == [
            (2, False, 2),
            (MAX_EXAMINED_BURSTS, True, MAX_LISTED_BURSTS),
            (MAX_EXAMINED_BURSTS, False, MAX_LISTED_BURSTS),
            (1, False, 1),
            (MAX_EXAMINED_BURSTS, True, MAX_LISTED_BURSTS),
        ]
        assert len(items) == 5 + 6
    assert lee.badge() == 5 + 6


def test_page_without_digest_subjects_costs_no_digest_read() -> None:
    lee = LeesInbox()
    lee.open_bursts(1, subject=NOVA)
    lee.stage.state.people.volume(LEE, LYRA, Volume.ALL)
    lee.page()
    reads_without_digest, lee.reads.count = lee.reads.count, 0
    lee.stage.state.people.volume(LEE, LYRA, Volume.DIGEST)
    lee.page()
    assert lee.reads.count == reads_without_digest + 2  # one for the page, one for the badge


def test_badge_does_not_read_seen_digests() -> None:
    lee = LeesInbox()
    lee.open_bursts(2)
    lee.move_clock_to(19)
    token = lee.page().seen
    assert token is not None
    run_sync(lee.uncached_inbox().see(LEE, token))
    lee.reads.count = 0
    assert lee.badge() == 0
    reads_after_seen, lee.reads.count = lee.reads.count, 0
    lee.stage.state.people.volume(LEE, LYRA, Volume.ALL)
    assert lee.badge() == 0
    assert reads_after_seen == lee.reads.count


def test_digest_seen_exactly_at_its_hour_is_seen() -> None:
    lee = LeesInbox()
    lee.open_bursts(2)
    lee.move_clock_to(18)
    token = lee.page().seen
    assert token is not None
    assert digest_key(LEE, DUE.date()) in token.newer
    run_sync(lee.uncached_inbox().see(LEE, token))
    assert lee.badge() == 0


def test_digest_can_be_marked_like_other_items() -> None:
    lee = LeesInbox()
    lee.open_bursts(2)
    lee.move_clock_to(18 + 24)
    for mark, listed, unread in (
        (Mark.READ, True, 0),
        (Mark.UNREAD, True, 1),
        (Mark.HIDDEN, False, 0),
        (Mark.NONE, True, 1),
    ):
        lee.mark(first_day(), mark)
        assert (len(lee.page().items), lee.badge()) == (int(listed), unread)


def test_badge_counts_old_digest_marked_unread() -> None:
    lee = LeesInbox()
    for day in range(4):
        lee.move_clock_to(24 * day + 17)
        lee.open_bursts(MAX_EXAMINED_BURSTS)
    lee.move_clock_to(24 * 4)
    lee.mark(first_day(), Mark.UNREAD)
    token = lee.page(limit=1).seen
    assert token is not None
    run_sync(lee.uncached_inbox().see(LEE, token))
    assert lee.badge() == 1
    lee.page(limit=1)


def test_digests_of_quiet_days_share_reads() -> None:
    lee, marked = LeesInbox(), list[BurstKey]()
    for day in range(30):
        lee.move_clock_to(24 * day + 17)
        lee.open_bursts(MAX_EXAMINED_BURSTS + 1 if day in (10, 11) else day % 3)
        marked.append(digest_key(LEE, (DUE + day * DAY).date()))
    lee.move_clock_to(24 * 30)
    view = lee.page().view
    digests_read_singly = [run_sync(read_digests(lee.reads, view, [key])) for key in marked]
    lee.reads.count = 0
    assert run_sync(read_digests(lee.reads, view, marked[::-2])) == {
        k: v for digests in digests_read_singly[::-2] for k, v in digests.items()
    }
    assert run_sync(read_digests(lee.reads, view, marked)) == {
        k: v for digests in digests_read_singly for k, v in digests.items()
    }
    # Three reads for quiet, busy and quiet days; four when all days are named, as two of them are busy.
    assert lee.reads.count == 3 + 4


@pytest.mark.parametrize("day", ["20260230", "19700102", "99980101", "1"])
def test_marking_a_missing_digest_is_rejected(day: str) -> None:
    lee = LeesInbox()
    lee.open_bursts(1)
    lee.move_clock_to(19)
    with pytest.raises(NotFound):
        lee.mark(day, Mark.READ)
    lee.mark(first_day(), Mark.READ)
    lee.stage.state.people.volume(LEE, LYRA, Volume.ALL)
    with pytest.raises(NotFound):
        lee.mark(first_day(), Mark.READ)


def test_digest_keeps_marks_when_zone_or_hour_changes() -> None:
    lee = LeesInbox()
    lee.open_bursts(2)
    lee.move_clock_to(19)
    lee.mark(first_day(), Mark.READ)
    lee.stage.state.people.patch_account(LEE, AccountPreferencesPatch(digest_hour=20))
    assert lee.keys() == []
    lee.move_clock_to(20)
    item = digest_in(lee.page())
    assert (item.digest.opened_at, item.unread, lee.badge()) == (DUE + 2 * HOUR, False, 0)
    lee.stage.state.people.patch_account(
        LEE, AccountPreferencesPatch(zone="Asia/Tokyo", digest_hour=18)
    )  # 09:00 UTC, so the digest belongs to the next day
    assert lee.keys() == []
    lee.move_clock_to(24 + 9)
    assert lee.keys() == [f"digest:lee#{DUE + DAY:%Y%m%d}"]


def test_digest_excludes_blocked_and_protected_authors() -> None:
    lee = LeesInbox()
    lee.open_bursts(1, mentioners=(UserId("bob"),))
    lee.open_bursts(1, restricted_to=EVE)
    lee.open_bursts(1, mentioners=(UserId("bob"), UserId("ada")))
    lee.stage.state.people.block(LEE, UserId("bob"))
    lee.move_clock_to(19)
    item = digest_in(lee.page())
    assert [inner.burst.key.seq for inner in item.bursts] == [3]
    assert item.bursts[0].mentioners == (UserId("ada"),)
    lee.stage.state.people.block(LEE, UserId("ada"))
    assert lee.keys() == []


def test_partial_page_shows_last_known_digest_while_store_is_unavailable() -> None:
    lee = LeesInbox()
    lee.open_bursts(2)
    lee.move_clock_to(19)
    tab = lee.uncached_inbox()
    before, _ = run_sync(tab.open(LEE))
    unavailable = replace(tab, timeline=FailingPort(lee.stage.state.timeline, StoreUnavailable))
    page, badge = run_sync(unavailable.open(LEE))
    assert (page.partial, badge) == (True, None)
    [item], [item_before] = page.items, before.items
    assert isinstance(item, DigestItem)
    assert isinstance(item_before, DigestItem)
    assert (item.digest.key, item.digest.count, item.digest.accounts) == (
        item_before.digest.key,
        2,
        item_before.digest.accounts,
    )
    assert item.bursts == ()
