"""Cached inboxes of two processes: what one writes the other shows, and what is not proved is read from the store."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox.invalidation import SharedLooks
from notifier.flow.inbox.page import Badge
from notifier.flow.inbox.shared_loads import Singleflight
from notifier.ports.inbox import Timeline
from tests.flow.inboxes import KIM, Processes, both_shown
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import driven

FIRST = BurstKey(NOVA, 1)
PATIENT = timedelta(minutes=1)


@pytest.fixture
def processes() -> Processes:
    return both_shown()


def test_warm_page_reads_no_store(processes: Processes) -> None:
    before = processes.count("inbox_store_calls")
    processes.stage.pass_time(seconds=5)
    assert processes.open(0).page.items == processes.open(0).page.items
    assert processes.count("inbox_store_calls") == before


def test_cold_page_reads_store_three_times() -> None:
    stage = Stage()
    stage.mention("nova")
    found = Processes(stage)
    found.open(0)
    assert found.count("inbox_store_calls") <= 3


def test_older_bursts_that_a_badge_counted_are_read_once(processes: Processes) -> None:
    for number in range(3):
        processes.stage.pass_time(minutes=2)
        processes.stage.mention("nova", of=f"older-{number}")
    processes.stage.ground.pull.wipe()
    subjects = processes.inboxes[0].subjects
    subjects.begin()
    subjects.run = 2
    assert processes.open(0).badge == Badge(count=4, more=False)
    before = processes.count("inbox_store_calls")
    processes.stage.pass_time(seconds=61)
    processes.stage.mention("nova", of="newest")
    assert processes.open(0).badge == Badge(count=5, more=False)
    assert processes.count("inbox_store_calls") == before


def test_read_your_writes_everywhere_after_mark(processes: Processes) -> None:
    driven(processes.inboxes[0].mark(KIM, [FIRST], Mark.HIDDEN))
    assert processes.shown(1) == processes.shown(0) == []


def test_read_your_writes_everywhere_after_seen(processes: Processes) -> None:
    token = processes.open(0).page.seen
    assert token is not None
    driven(processes.inboxes[0].see(KIM, token))
    for process in (0, 1):
        badge = processes.open(process).badge
        assert badge is not None
        assert badge.count == 0


def test_new_burst_is_shown_at_next_open(processes: Processes) -> None:
    processes.stage.pass_time(minutes=2)
    processes.stage.mention("nova", of="t2")
    assert processes.shown(0) == processes.shown(1) == [str(BurstKey(NOVA, 2)), str(FIRST)]


def test_retraction_gone_next_read(processes: Processes) -> None:
    processes.stage.say(DELETED_TYPE, tweet="t1", author="ada")
    assert processes.shown(0) == processes.shown(1) == []


def test_retraction_is_gone_within_its_second_without_news(processes: Processes) -> None:
    processes.stage.ground.bus.stalled = True
    processes.stage.say(DELETED_TYPE, tweet="t1", author="ada")
    processes.stage.pass_time(seconds=1)
    assert processes.shown(0) == processes.shown(1) == []


@pytest.mark.parametrize("caches", ["full", "small"])
def test_late_word_of_an_old_state_brings_no_retracted_burst_back(processes: Processes, caches: str) -> None:
    """A publisher that Redis did not answer says what it has to say much later."""
    stage = processes.stage
    [opened] = [burst for burst in stage.ground.bursts.by_key.values() if burst.key == FIRST]
    stage.say(DELETED_TYPE, tweet="t1", author="ada")
    stage.sequence()
    assert processes.shown(0) == []
    for tweet in ("t2", "t3"):  # whatever was heard more than 30 seconds ago is forgotten with the next word
        stage.pass_time(seconds=31)
        stage.mention("orion", of=tweet)
        processes.open(0)
    if caches == "small":
        processes.inboxes[0].subjects.bursts.clear()
    stage.ground.bus.publish([opened])
    assert str(FIRST) not in processes.shown(0)
    processes.inboxes[1].subjects.begin()
    assert str(FIRST) not in processes.shown(1)


def test_unfollow_is_shown_at_next_open(processes: Processes) -> None:
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    assert processes.shown(0) == processes.shown(1) == []


def test_change_that_redis_was_not_told_of_is_shown_within_a_second(processes: Processes) -> None:
    versions = processes.stage.ground.versions
    versions.away = True
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    versions.away = False
    processes.stage.pass_time(seconds=1)
    assert processes.shown(0) == processes.shown(1) == []


def test_inbox_is_unchanged_after_redis_wipe(processes: Processes) -> None:
    processes.stage.ground.wipe()
    assert processes.shown(0) == [str(FIRST)]
    driven(processes.inboxes[1].mark(KIM, [FIRST], Mark.HIDDEN))
    assert processes.shown(0) == []


def test_new_connection_distrusts_cached_facts(processes: Processes) -> None:
    """The server behind it may have taken over without the latest versions."""
    processes.stage.ground.versions.connection += 1
    before = processes.count("inbox_cache", tier="viewers", result="miss")
    assert processes.shown(0) == [str(FIRST)]
    assert processes.count("inbox_cache", tier="viewers", result="miss") == before + 1


def test_facts_are_read_anew_after_five_minutes(processes: Processes) -> None:
    """Even if Redis has the old version again, on a connection that seems to be the same."""
    versions = processes.stage.ground.versions
    old = {scope: entry.version for scope, entry in versions.entries.items()}
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    versions.entries.clear()
    for scope, version in old.items():
        versions.set_version(scope, version)
    assert processes.shown(0) == [str(FIRST)]
    for _ in range(10):  # often enough for the process not to count as idle
        processes.stage.pass_time(seconds=31)
        processes.open(0)
    assert processes.shown(0) == []


def test_known_viewer_gets_partial_page_while_store_is_away(processes: Processes) -> None:
    processes.stage.ground.versions.away = True
    inbox = processes.inboxes[0]
    inbox.subjects.timeline = cast(Timeline, Away())
    inbox.viewers.distrust(processes.stage.ground.clock.now())
    inbox.subjects.begin()
    page = driven(inbox.open(KIM)).page
    assert page.partial
    assert [str(item.entry.key) for item in page.items] == [str(FIRST)]


def test_herd_one_load() -> None:
    """A thousand opens at once of one cold burst read it once."""
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(minutes=1)
    found = Processes(stage)

    async def herd() -> Sequence[int]:
        inbox = replace(found.inboxes[0])
        inbox.subjects.loads, inbox.subjects.subject_loads = Singleflight(), Singleflight()
        inbox.subjects.timeline = cast(Timeline, Slow(inbox.subjects.timeline))
        inbox = replace(inbox, facts=replace(inbox.facts, looks=SharedLooks(looks=inbox.facts.looks, within=PATIENT)))
        openings = await asyncio.gather(*(inbox.open(KIM) for _ in range(1_000)))
        return [len(opening.page.items) for opening in openings]

    assert set(asyncio.run(herd())) == {1}
    assert found.count("inbox_burst_loads") == 1


class Away:
    """A timeline that never answers."""

    def __getattr__(self, name: str) -> object:
        async def refused(*given: object, **named: object) -> object:
            raise StoreUnavailable(name)

        return refused


class Slow:
    """A timeline that lets others go on before it answers."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    def __getattr__(self, name: str) -> object:
        async def answered(*given: object, **named: object) -> object:
            await asyncio.sleep(0.01)
            return await getattr(self.timeline, name)(*given, **named)

        return answered
