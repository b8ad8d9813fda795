"""During a store outage, the inbox shows the user's last known page and nothing newer."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox import last_known_and_shared_pages
from notifier.flow.inbox.inbox import UncachedInbox
from notifier.flow.inbox.last_known_and_shared_pages import MAX_PAGE_AGE, LastKnownPages
from notifier.flow.inbox.page import Page
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync

KIM = UserId("kim")


def mentioned(times: int = 1) -> Stage:
    stage = Stage()
    for _ in range(times):
        stage.mention("nova")
        stage.pass_time(minutes=2)
    return stage


def opened(tab: UncachedInbox, limit: int = 20) -> Page:
    page, badge = run_sync(tab.open(KIM, limit=limit))
    assert (badge is None) == page.partial
    return page


def unavailable(tab: UncachedInbox) -> UncachedInbox:
    """Return the inbox of the same process during a store outage."""
    refusing: Callable[[object], FailingPort] = lambda port: FailingPort(port, StoreUnavailable)  # noqa: E731
    return replace(tab, people=refusing(tab.people), timeline=refusing(tab.timeline))


def test_outage_shows_the_last_page_as_partial() -> None:
    tab = mentioned(3).uncached_inbox()
    page_before = opened(tab)
    page_after = opened(unavailable(tab))
    assert page_after.partial
    assert not page_before.partial
    assert [item.entry for item in page_after.items] == [item.entry for item in page_before.items]
    assert page_after.next is None
    assert page_after.seen is None
    assert len(opened(unavailable(tab), limit=2).items) == 2


def test_outage_rejects_new_viewers_and_older_pages() -> None:
    tab = mentioned(3).uncached_inbox()
    with pytest.raises(StoreUnavailable):
        opened(unavailable(tab))
    first = opened(tab, limit=1)
    with pytest.raises(StoreUnavailable):
        run_sync(unavailable(tab).open(KIM, after=first.next, limit=1))


def test_last_known_page_includes_later_marks() -> None:
    tab = mentioned(3).uncached_inbox()
    page = opened(tab)
    hidden, read, unread_key = (item.entry.key for item in page.items)
    run_sync(tab.mark(KIM, [hidden], Mark.HIDDEN))
    run_sync(tab.mark(KIM, [read], Mark.READ))
    shown = opened(unavailable(tab)).items
    assert [(item.entry.key, item.unread) for item in shown] == [(read, False), (unread_key, True)]
    assert page.seen is not None
    run_sync(tab.see(KIM, page.seen))
    assert [item.unread for item in opened(unavailable(tab)).items] == [False, False]


def test_last_known_page_is_evicted_by_age_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = mentioned()
    tab = stage.uncached_inbox()
    page = opened(tab)
    stage.pass_time(seconds=MAX_PAGE_AGE.total_seconds() + 1)
    with pytest.raises(StoreUnavailable):
        opened(unavailable(tab))
    monkeypatch.setattr(last_known_and_shared_pages, "MAX_USERS", 2)
    pages, now = LastKnownPages(), page.view.now
    users = [UserId("a"), UserId("b"), UserId("c")]
    for user in users:
        pages.put(replace(page, view=replace(page.view, viewer=replace(page.view.viewer, user=user))))
    assert [user for user in users if pages.partial_page(user, now, 20)] == users[1:]


def test_last_known_page_omits_expired_bursts() -> None:
    tab = mentioned().uncached_inbox()
    page = opened(tab)
    pages = LastKnownPages()
    pages.put(replace(page, view=replace(page.view, now=page.view.now + timedelta(days=400))))
    page_after = pages.partial_page(KIM, page.view.now + timedelta(days=400), 20)
    assert page_after is not None
    assert not page_after.items


def test_last_known_page_keeps_only_viewer_facts_it_needs() -> None:
    tab = mentioned(2).uncached_inbox()
    page = opened(tab)
    subjects, keys = {item.entry.key.subject for item in page.items}, {item.entry.key for item in page.items}
    viewer = page.view.viewer
    other_follows = {Subject(Kind.MENTION, UserId(f"star{n}")): page.view.now for n in range(500)}
    marks = {BurstKey(subject, 1): Mark.READ for subject in other_follows}
    crowded = replace(
        viewer,
        follows={**viewer.follows, **other_follows},
        volume=dict.fromkeys(other_follows, Volume.OFF),
        marks=replace(viewer.marks, by_burst={**viewer.marks.by_burst, **marks}, also_seen=frozenset(marks)),
    )
    pages = LastKnownPages()
    pages.put(replace(page, view=replace(page.view, viewer=crowded)))
    again = pages.partial_page(KIM, page.view.now, limit=20)
    assert again is not None
    assert [item.entry for item in again.items] == [item.entry for item in page.items]
    narrowed = again.view.viewer
    assert set(narrowed.follows) <= subjects
    assert not narrowed.volume
    assert not narrowed.marks.also_seen
    assert set(narrowed.marks.by_burst) <= keys


def test_expired_page_is_evicted_when_a_page_is_added() -> None:
    page = opened(mentioned().uncached_inbox())
    pages = LastKnownPages()
    pages.put(page)
    view_of_lee = replace(
        page.view, viewer=replace(page.view.viewer, user=UserId("lee")), now=page.view.now + 2 * MAX_PAGE_AGE
    )
    pages.put(replace(page, view=view_of_lee))
    assert list(pages._pages) == ["lee"]
