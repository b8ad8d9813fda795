"""The audit accepts correct inboxes during changes, and reports wrong lists and badges."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.upstream.validation import DELETED_TYPE, PROTECTED_TYPE
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox.page import Badge, OpenedInbox, Page
from notifier.flow.inbox.page_audit import Audit
from notifier.metrics import Metrics
from notifier.wiring.delivery import build_reconciler
from tests.support.fakes.inbox_rows_and_audience_snapshots import MemoryTimeline
from tests.support.in_memory_system import NOVA, Openings, Stage
from tests.support.simulator.inbox_visits import run_sync
from tests.support.simulator.population import VIEWERS

KIM = UserId("kim")
TICK = timedelta(seconds=1)


@dataclass(slots=True)
class Audited:
    """Every user's inbox on a stage, and the audit of its responses."""

    stage: Stage = field(default_factory=Stage)
    metrics: Metrics = field(default_factory=Metrics)
    meanwhile: Callable[[], None] = lambda: None
    """Runs in the pause of an audit that found a difference."""

    def mentions(self, number: int, author: str = "ada") -> "Audited":
        """Open this many settled bursts."""
        for _ in range(number):
            self.stage.mention("nova", author=author)
            self.stage.pass_time(minutes=2)
        return self

    def open(self, limit: int = 3, user: UserId = KIM) -> OpenedInbox:
        openings = Openings()
        run_sync(replace(self.stage.uncached_inbox(), observers=[openings]).open(user, limit=limit))
        return openings[0]

    def drifts(self, opened: OpenedInbox) -> float:
        """Return how many drifts the audit of this response adds."""
        before, state = self.count("drift"), self.stage.state
        run_sync(
            Audit(people=state.people, timeline=state.timeline, metrics=self.metrics, pause=self._pause).compare(opened)
        )
        return self.count("drift") - before

    def count(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(f"notifier_badge_{name}_total") or 0.0

    async def _pause(self, _: float) -> None:
        self.meanwhile()


def page_of(opened: OpenedInbox) -> Page:
    assert opened.page is not None
    return opened.page


def test_audit_agrees_with_correct_list_and_badge() -> None:
    audited = Audited().mentions(5)
    for limit in (1, 3, 5, 6):
        assert audited.drifts(audited.open(limit)) == 0
    assert audited.count("audits") == 4


def test_older_page_and_lone_badge_are_audited() -> None:
    audited, openings = Audited().mentions(5), Openings()
    first = audited.open(limit=2)
    tab = replace(audited.stage.uncached_inbox(), observers=[openings])
    run_sync(tab.open(KIM, after=page_of(first).next, limit=2))
    run_sync(tab.badge(KIM))
    older, badge_only = openings
    assert [audited.drifts(opening) for opening in openings] == [0, 0]
    short = replace(page_of(older), items=page_of(older).items[1:])
    wrong = [replace(older, page=short), replace(badge_only, badge=Badge(count=4, more=False))]
    assert [audited.drifts(opening) for opening in wrong] == [1, 1]


@pytest.mark.parametrize("change", ["missing", "doubled", "swapped", "read", "counted", "more"])
def test_wrong_list_or_badge_counts_as_drift(change: str) -> None:
    audited = Audited().mentions(4)
    opened = audited.open()
    page = page_of(opened)
    first, second, third = page.items
    wrong: dict[str, OpenedInbox] = {
        "missing": replace(opened, page=replace(page, items=[first, third])),
        "doubled": replace(opened, page=replace(page, items=[first, first, second, third])),
        "swapped": replace(opened, page=replace(page, items=[second, first, third])),
        "read": replace(opened, page=replace(page, items=[replace(first, unread=False), second, third])),
        "counted": replace(opened, badge=Badge(count=3, more=False)),
        "more": replace(opened, badge=Badge(count=100, more=True)),
    }
    assert audited.drifts(opened) == 0
    assert audited.drifts(wrong[change]) == 1


def test_index_with_false_completeness_counts_as_drift() -> None:
    audited = Audited().mentions(3)
    build_reconciler(audited.stage.system())()
    assert audited.drifts(audited.open()) == 0
    lists = audited.stage.state.pull.lists
    lists[NOVA] = replace(lists[NOVA], opened={seq: at for seq, at in lists[NOVA].opened.items() if seq != 2})
    opened = audited.open()
    assert BurstKey(NOVA, 2) not in {item.entry.key for item in page_of(opened).items}
    assert audited.drifts(opened) == 1


def test_burst_opened_after_the_response_is_no_drift() -> None:
    audited = Audited().mentions(2)
    opened = audited.open()
    audited.stage.mention("nova", author="bob")
    assert audited.drifts(opened) == 0


def test_burst_made_visible_by_unblocked_mentioner_is_no_drift() -> None:
    audited = Audited()
    audited.stage.state.people.block(KIM, UserId("ada"))
    audited.stage.mention("nova", author="ada")
    audited.stage.pass_time(seconds=10)
    opened = audited.open()
    assert page_of(opened).items == []
    audited.stage.mention("nova", author="bob")
    assert len(page_of(audited.open()).items) == 1
    assert audited.drifts(opened) == 0


def test_marks_written_after_the_response_are_no_drift() -> None:
    audited = Audited().mentions(3)
    opened = replace(audited.open(), badge=Badge(count=2, more=False))

    def read_one() -> None:
        run_sync(audited.stage.uncached_inbox().mark(KIM, [BurstKey(NOVA, 1)], Mark.READ))

    audited.meanwhile = read_one
    assert audited.drifts(opened) == 0
    audited.meanwhile = lambda: None
    assert audited.drifts(replace(audited.open(), badge=Badge(count=1, more=False))) == 1


def test_transient_difference_is_no_drift() -> None:
    audited = Audited().mentions(2)
    opened, bursts = audited.open(), audited.stage.state.bursts.by_key
    hidden = bursts.pop(BurstKey(NOVA, 1))
    audited.meanwhile = lambda: bursts.update({hidden.key: hidden})
    assert audited.drifts(opened) == 0


def test_partial_page_is_not_audited() -> None:
    audited = Audited().mentions(1)
    opened = audited.open()
    assert audited.drifts(replace(opened, page=replace(page_of(opened), items=[], partial=True), badge=None)) == 0
    assert audited.count("audits") == 0


def test_audit_counts_seen_and_unread_bursts_like_the_badge() -> None:
    audited = Audited().mentions(4)
    token = page_of(audited.open()).seen
    assert token is not None
    tab = audited.stage.uncached_inbox()
    run_sync(tab.see(KIM, token))
    run_sync(tab.mark(KIM, [BurstKey(NOVA, 1)], Mark.UNREAD))
    opened = audited.open()
    assert opened.badge == Badge(count=1, more=False)
    assert audited.drifts(opened) == 0
    assert audited.drifts(replace(opened, badge=Badge(count=0, more=False))) == 1


def test_audit_agrees_with_capped_badge() -> None:
    audited = Audited(Stage(collapse=None)).mentions(1)
    bursts = audited.stage.state.bursts.by_key
    [original] = [burst for key, burst in bursts.items() if key.subject == NOVA]
    for seq in range(2, 152):
        key = BurstKey(NOVA, seq)
        bursts[key] = replace(original, key=key)
    audited.stage.state.pull.wipe()
    opened = audited.open()
    assert opened.badge == Badge(count=100, more=True)
    assert audited.drifts(opened) == 0
    assert audited.drifts(replace(opened, badge=Badge(count=100, more=False))) == 1


def test_audit_counts_old_burst_marked_unread() -> None:
    audited = Audited().mentions(1)
    bursts, tab = audited.stage.state.bursts.by_key, audited.stage.uncached_inbox()
    original = bursts[BurstKey(NOVA, 1)]
    for seq in range(2, 152):
        bursts[BurstKey(NOVA, seq)] = replace(
            original, key=BurstKey(NOVA, seq), opened_at=original.opened_at + seq * TICK
        )
    audited.stage.pass_time(minutes=5)
    token = page_of(audited.open()).seen
    assert token is not None
    run_sync(tab.see(KIM, token))
    run_sync(tab.mark(KIM, [original.key], Mark.UNREAD))
    opened = audited.open()
    assert opened.badge == Badge(count=1, more=False)
    assert audited.drifts(opened) == 0


def test_burst_with_changed_opening_time_is_no_drift() -> None:
    audited = Audited().mentions(3)
    opened, bursts = audited.open(), audited.stage.state.bursts.by_key
    late = bursts[BurstKey(NOVA, 1)]
    bursts[late.key] = replace(late, opened_at=bursts[BurstKey(NOVA, 2)].opened_at + TICK)
    assert audited.drifts(opened) == 0


def test_audit_raises_when_store_is_unavailable() -> None:
    audited = Audited().mentions(1)
    opened, state = audited.open(), audited.stage.state

    class Unavailable(MemoryTimeline):
        async def older_than(self, *args: Any, **kwargs: Any) -> Sequence[Burst]:
            raise StoreUnavailable

    audit = Audit(
        people=state.people,
        timeline=Unavailable(state.bursts, state.inbox),
        metrics=audited.metrics,
        pause=audited._pause,
    )
    with pytest.raises(StoreUnavailable):
        run_sync(audit.compare(opened))


@pytest.mark.parametrize("seed", range(8))
def test_random_changes_cause_no_drift(seed: int) -> None:
    """Mentions, deliveries, cache wipes, marks and reads in random order; each response is audited some steps later."""
    audited, random_, waiting = Audited(), random.Random(seed), list[OpenedInbox]()
    stage, state = audited.stage, audited.stage.state

    def deliver() -> None:
        stage.dispatch()
        stage.work()

    def see() -> None:
        if (token := page_of(audited.open()).seen) is not None:
            run_sync(stage.uncached_inbox().see(KIM, token))

    def mark() -> None:
        for item in page_of(audited.open()).items[:1]:
            run_sync(stage.uncached_inbox().mark(KIM, [item.entry.key], random_.choice(list(Mark))))

    steps: list[Callable[[], object]] = [
        lambda: stage.tweet(random_.choice(["nova", "lyra", "kim"]), author=random_.choice(["ada", "bob", "eve"])),
        lambda: stage.pass_time(seconds=random_.choice([0.5, 3, 100])),
        lambda: waiting.append(audited.open(random_.randint(1, 5), UserId(random_.choice(VIEWERS)))),
        stage.sequence,
        build_reconciler(stage.system()),
        state.pull.wipe,
        deliver,
        see,
        mark,
    ]
    for _ in range(150):
        random_.choices(steps, weights=[2, 1, 3, 1, 1, 1, 1, 1, 1])[0]()
        if len(waiting) > 3:
            assert audited.drifts(waiting.pop(0)) == 0
    assert audited.count("audits") > 5


@pytest.mark.parametrize("retraction", [DELETED_TYPE, PROTECTED_TYPE])
@pytest.mark.parametrize("volume", [Volume.ALL, Volume.DIGEST])
@pytest.mark.parametrize("mark", [None, Mark.UNREAD])
def test_retraction_after_the_response_is_no_drift(retraction: str, volume: Volume, mark: Mark | None) -> None:
    audited = Audited()
    audited.stage.state.people.volume(KIM, NOVA, volume)
    audited.mentions(3).stage.pass_time(days=1)
    if mark:
        run_sync(
            audited.stage.uncached_inbox().mark(KIM, [item.entry.key for item in page_of(audited.open()).items], mark)
        )
    opened = audited.open()
    if retraction == DELETED_TYPE:
        audited.stage.send_event(retraction, tweet="t1", author="ada")
    else:
        audited.stage.send_event(retraction, user="ada")
    later = audited.open()
    assert page_of(opened).items
    assert not page_of(later).items
    assert [audited.drifts(opening) for opening in (opened, later)] == [0, 0]
    wrong = replace(later, badge=Badge(count=4, more=False))
    assert audited.drifts(wrong) == 1
