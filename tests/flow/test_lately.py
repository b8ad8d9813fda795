"""The tab while the store answers nobody: what the person was last shown, and nothing that would be news."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox import last_known_pages as lately
from notifier.flow.inbox.inbox import Tab
from notifier.flow.inbox.last_known_pages import KEPT, Lately
from notifier.flow.inbox.page import Page
from tests.support.failing_ports import Refusing
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import driven

KIM = UserId("kim")


def mentioned(times: int = 1) -> Stage:
    stage = Stage()
    for _ in range(times):
        stage.mention("nova")
        stage.pass_time(minutes=2)
    return stage


def opened(tab: Tab, limit: int = 20) -> Page:
    page, badge = driven(tab.open(KIM, limit=limit))
    assert (badge is None) == page.partial
    return page


def dark(tab: Tab) -> Tab:
    """The same process, when nothing of the store answers any more."""
    refusing: Callable[[object], Refusing] = lambda port: Refusing(port, StoreUnavailable)  # noqa: E731
    return replace(tab, people=refusing(tab.people), timeline=refusing(tab.timeline))


def test_an_outage_shows_the_last_page_again_as_a_partial_one() -> None:
    tab = mentioned(3).tab()
    whole = opened(tab)
    again = opened(dark(tab))
    assert again.partial
    assert not whole.partial
    assert [item.entry for item in again.items] == [item.entry for item in whole.items]
    assert again.next is None
    assert again.seen is None
    assert len(opened(dark(tab), limit=2).items) == 2


def test_whoever_was_shown_nothing_yet_is_refused_and_so_is_an_older_page() -> None:
    tab = mentioned(3).tab()
    with pytest.raises(StoreUnavailable):
        opened(dark(tab))
    first = opened(tab, limit=1)
    with pytest.raises(StoreUnavailable):
        driven(dark(tab).open(KIM, after=first.next, limit=1))


def test_a_reader_of_marks_that_came_since_finds_them() -> None:
    tab = mentioned(3).tab()
    page = opened(tab)
    hidden, read, other = (item.entry.key for item in page.items)
    driven(tab.mark(KIM, [hidden], Mark.HIDDEN))
    driven(tab.mark(KIM, [read], Mark.READ))
    shown = opened(dark(tab)).items
    assert [(item.entry.key, item.unread) for item in shown] == [(read, False), (other, True)]
    assert page.seen is not None
    driven(tab.see(KIM, page.seen))
    assert [item.unread for item in opened(dark(tab)).items] == [False, False]


def test_it_is_forgotten_when_it_is_old_and_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = mentioned()
    tab = stage.tab()
    page = opened(tab)
    stage.pass_time(seconds=KEPT.total_seconds() + 1)
    with pytest.raises(StoreUnavailable):
        opened(dark(tab))
    monkeypatch.setattr(lately, "MOST", 2)
    kept, now = Lately(), page.look.now
    users = [UserId("a"), UserId("b"), UserId("c")]
    for user in users:
        kept.keep(replace(page, look=replace(page.look, viewer=replace(page.look.viewer, user=user))))
    assert [user for user in users if kept.again(user, now, 20)] == users[1:]


def test_a_burst_that_ended_meanwhile_is_not_shown_again() -> None:
    tab = mentioned().tab()
    page = opened(tab)
    kept = Lately()
    kept.keep(replace(page, look=replace(page.look, now=page.look.now + timedelta(days=400))))
    found = kept.again(KIM, page.look.now + timedelta(days=400), 20)
    assert found is not None
    assert not found.items


def test_of_a_viewer_only_that_is_kept_which_decides_about_the_page() -> None:
    tab = mentioned(2).tab()
    page = opened(tab)
    subjects, keys = {item.entry.key.subject for item in page.items}, {item.entry.key for item in page.items}
    viewer = page.look.viewer
    many = {Subject(Kind.MENTION, UserId(f"star{n}")): page.look.now for n in range(500)}
    marks = {BurstKey(subject, 1): Mark.READ for subject in many}
    crowded = replace(
        viewer,
        follows={**viewer.follows, **many},
        volume=dict.fromkeys(many, Volume.OFF),
        marks=replace(viewer.marks, by_burst={**viewer.marks.by_burst, **marks}, also_seen=frozenset(marks)),
    )
    kept = Lately()
    kept.keep(replace(page, look=replace(page.look, viewer=crowded)))
    again = kept.again(KIM, page.look.now, limit=20)
    assert again is not None
    assert [item.entry for item in again.items] == [item.entry for item in page.items]
    narrowed = again.look.viewer
    assert set(narrowed.follows) <= subjects
    assert not narrowed.volume
    assert not narrowed.marks.also_seen
    assert set(narrowed.marks.by_burst) <= keys


def test_what_is_too_old_to_be_shown_again_is_kept_no_longer() -> None:
    page = opened(mentioned().tab())
    kept = Lately()
    kept.keep(page)
    other = replace(page.look, viewer=replace(page.look.viewer, user=UserId("lee")), now=page.look.now + 2 * KEPT)
    kept.keep(replace(page, look=other))
    assert list(kept._pages) == ["lee"]
