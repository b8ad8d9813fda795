"""Cached inboxes of two processes show each other's writes and reload unproved facts."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox.inbox import Inbox
from notifier.flow.inbox.page import Badge
from notifier.flow.inbox.page_deadline_and_breaker import PageDeadline
from notifier.flow.inbox.shared_loads import Singleflight
from notifier.ports.inbox import Timeline
from notifier.ports.viewers_preferences_user_blocks import People
from notifier.wiring.inbox import build_inbox
from tests.cli.in_memory_read_ports import reads_of
from tests.flow.two_api_processes import KIM, Processes, warm_processes
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import run_sync

FIRST = BurstKey(NOVA, 1)
PATIENT = timedelta(minutes=1)


@pytest.fixture
def processes() -> Processes:
    return warm_processes()


def test_warm_page_reads_no_store(processes: Processes) -> None:
    before = processes.count("inbox_store_calls")
    processes.stage.pass_time(seconds=5)
    assert processes.open(0).page.items == processes.open(0).page.items
    assert processes.count("inbox_store_calls") == before


def test_page_is_kept_if_its_facts_are_read_again_unchanged(processes: Processes) -> None:
    first = processes.open(0)
    for kept in (True, False):
        processes.inboxes[0].viewers.distrust(processes.stage.state.clock.now())
        answer = processes.open(0)
        assert (answer.page is first.page) is kept
        assert answer.page.view.viewer is processes.inboxes[0].viewers.viewers[KIM].viewer  # one copy in memory
        run_sync(processes.inboxes[1].mark(KIM, [FIRST], Mark.HIDDEN))


def test_cold_page_reads_store_at_most_three_times() -> None:
    stage = Stage()
    stage.mention("nova")
    processes = Processes(stage)
    processes.open(0)
    assert processes.count("inbox_store_calls") <= 3


def test_older_bursts_counted_by_badge_are_read_once(processes: Processes) -> None:
    for number in range(3):
        processes.stage.pass_time(minutes=2)
        processes.stage.mention("nova", of=f"older-{number}")
    processes.stage.state.pull.wipe()
    subjects = processes.inboxes[0].subject_cache
    subjects.begin()
    subjects.run_length = 2
    assert processes.open(0).badge == Badge(count=4, more=False)
    before = processes.count("inbox_store_calls")
    processes.stage.pass_time(seconds=61)
    processes.stage.mention("nova", of="newest")
    assert processes.open(0).badge == Badge(count=5, more=False)
    assert processes.count("inbox_store_calls") == before


def test_read_your_writes_everywhere_after_a_mark(processes: Processes) -> None:
    run_sync(processes.inboxes[0].mark(KIM, [FIRST], Mark.HIDDEN))
    assert processes.shown(1) == processes.shown(0) == []


def test_read_your_writes_everywhere_after_seen(processes: Processes) -> None:
    token = processes.open(0).page.seen
    assert token is not None
    run_sync(processes.inboxes[0].see(KIM, token))
    for process in (0, 1):
        badge = processes.open(process).badge
        assert badge is not None
        assert badge.count == 0


def test_new_burst_is_shown_at_next_open(processes: Processes) -> None:
    processes.stage.pass_time(minutes=2)
    processes.stage.mention("nova", of="t2")
    assert processes.shown(0) == processes.shown(1) == [str(BurstKey(NOVA, 2)), str(FIRST)]


def test_retraction_gone_next_read(processes: Processes) -> None:
    processes.stage.send_event(DELETED_TYPE, tweet="t1", author="ada")
    assert processes.shown(0) == processes.shown(1) == []


def test_retracted_burst_is_gone_within_a_second_without_bus(processes: Processes) -> None:
    processes.stage.state.bus.stalled = True
    processes.stage.send_event(DELETED_TYPE, tweet="t1", author="ada")
    processes.stage.pass_time(seconds=1)
    assert processes.shown(0) == processes.shown(1) == []


@pytest.mark.parametrize("caches", ["full", "small"])
def test_late_announcement_does_not_restore_a_retracted_burst(processes: Processes, caches: str) -> None:
    """A publisher whose call to Redis failed announces an old state much later."""
    stage = processes.stage
    [opened] = [burst for burst in stage.state.bursts.by_key.values() if burst.key == FIRST]
    stage.send_event(DELETED_TYPE, tweet="t1", author="ada")
    stage.sequence()
    assert processes.shown(0) == []
    for tweet in ("t2", "t3"):  # the next message evicts entries older than 30 seconds
        stage.pass_time(seconds=31)
        stage.mention("orion", of=tweet)
        processes.open(0)
    if caches == "small":
        processes.inboxes[0].subject_cache.bursts.clear()
    stage.state.bus.publish([opened])
    assert str(FIRST) not in processes.shown(0)
    processes.inboxes[1].subject_cache.begin()
    assert str(FIRST) not in processes.shown(1)


def test_unfollow_is_shown_at_next_open(processes: Processes) -> None:
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    assert processes.shown(0) == processes.shown(1) == []


def test_change_during_redis_outage_is_shown_within_a_second(processes: Processes) -> None:
    versions = processes.stage.state.versions
    versions.away = True
    processes.stage.followed("kim", "nova", sequence=9, ended=True)
    versions.away = False
    processes.stage.pass_time(seconds=1)
    assert processes.shown(0) == processes.shown(1) == []


def test_inbox_is_unchanged_after_redis_wipe(processes: Processes) -> None:
    processes.stage.state.wipe()
    assert processes.shown(0) == [str(FIRST)]
    run_sync(processes.inboxes[1].mark(KIM, [FIRST], Mark.HIDDEN))
    assert processes.shown(0) == []


def test_new_server_state_distrusts_cached_facts(processes: Processes) -> None:
    """The server may be a replica that lacks the latest versions."""
    processes.stage.state.versions.server_state += 1
    before = processes.count("inbox_cache", tier="viewers", result="miss")
    assert processes.shown(0) == [str(FIRST)]
    assert processes.count("inbox_cache", tier="viewers", result="miss") == before + 1


def test_facts_are_reloaded_after_five_minutes(processes: Processes) -> None:
    """Redis has the old version again, in the same server state."""
    versions = processes.stage.state.versions
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


def test_known_viewer_gets_partial_page_while_store_is_unavailable(processes: Processes) -> None:
    processes.stage.state.versions.away = True
    inbox = processes.inboxes[0]
    inbox.subject_cache.timeline = cast(Timeline, Unavailable())
    inbox.viewers.distrust(processes.stage.state.clock.now())
    inbox.subject_cache.begin()
    page = run_sync(inbox.open(KIM)).page
    assert page.partial
    assert [str(item.entry.key) for item in page.items] == [str(FIRST)]


def shared_inbox(processes: Processes, people: "Slow") -> Inbox:
    """An inbox that shares loads and look-ups as in the API, on a slow store."""
    reads = reads_of(processes.stage)
    return build_inbox(
        replace(reads, people=cast(People, people), timeline=cast(Timeline, Slow(reads.timeline))),
        metrics=processes.metrics,
        new_shared_loads=Singleflight,
        max_lookup_wait=PATIENT,
        deadline=PageDeadline(PATIENT),
        cache_megabytes=10,
    )


def unopened_mention() -> tuple[Processes, "Slow"]:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(minutes=1)
    return Processes(stage), Slow(reads_of(stage).people)


def test_herd_one_load_of_facts_and_burst() -> None:
    """A thousand concurrent opens of one cold inbox read its facts and its burst once."""
    processes, people = unopened_mention()

    async def herd() -> Sequence[int]:
        inbox = shared_inbox(processes, people)
        openings = await asyncio.gather(*(inbox.open(KIM) for _ in range(1_000)))
        return [len(opening.page.items) for opening in openings]

    assert set(asyncio.run(herd())) == {1}
    assert processes.count("inbox_burst_loads") == 1
    assert people.calls["open"] == 1


def test_opens_during_a_load_use_what_it_has_cached() -> None:
    processes, people = unopened_mention()

    async def late_opens() -> Sequence[int]:
        inbox = shared_inbox(processes, people)
        openings = [asyncio.create_task(inbox.open(KIM))]
        while not people.calls["open"]:
            await asyncio.sleep(0)
        openings += [asyncio.create_task(inbox.open(KIM)) for _ in range(5)]
        return [len(opening.page.items) for opening in await asyncio.gather(*openings)]

    assert asyncio.run(late_opens()) == [1] * 6
    assert people.calls["open"] == 1


class Unavailable:
    """A timeline that is unavailable."""

    def __getattr__(self, name: str) -> object:
        async def refused(*args: object, **kwargs: object) -> object:
            raise StoreUnavailable(name)

        return refused


class Slow:
    """A port that yields to other tasks before it answers, and counts its calls."""

    def __init__(self, port: object) -> None:
        self.port = port
        self.calls = Counter[str]()

    def __getattr__(self, name: str) -> object:
        async def answered(*args: object, **kwargs: object) -> object:
            self.calls[name] += 1
            await asyncio.sleep(0.01)
            return await getattr(self.port, name)(*args, **kwargs)

        return answered
