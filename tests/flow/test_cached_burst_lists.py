"""Cached burst lists that grow, move or restart while a page is read."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.flow.inbox.inbox import Inbox
from notifier.flow.inbox.page import BADGE_LIMIT
from notifier.flow.inbox.shared_loads import Singleflight
from notifier.flow.inbox.subject_cache import SubjectCache, burst_size
from notifier.ports.pull_index import SubjectList, SubjectLists
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.support.interleavings.cached_api_processes import (
    FIRST,
    KIM,
    LEE,
    OF_LYRA,
    OF_NOVA,
    SECOND,
    SINCE,
    CachedApiProcesses,
    burst_of,
)
from tests.support.interleavings.thread_orders import Threads
from tests.support.simulator.inbox_visits import run_sync

SECONDS = timedelta(seconds=1)


def make_processes(mentions: int = 1) -> CachedApiProcesses:
    """Kim and lee follow nova, who was mentioned this often; no index lists it. Process 0 follows changes."""
    processes = CachedApiProcesses(Threads(stops_behind=False, atomic=[]), warm=())
    processes.pull.wipe()
    processes.people.follow(LEE, OF_NOVA, SINCE)
    for seq in range(2, mentions + 1):
        processes.clock.advance(SECONDS)
        processes.bursts.write([burst_of(BurstKey(OF_NOVA, seq), processes.clock)], [])
    processes.clock.advance(timedelta(minutes=1))
    run_sync(processes.inboxes[0].facts.lookups.look_up((), may_wait=True))
    return processes


@dataclass
class Reading:
    """A timeline that runs other code during its reads."""

    timeline: Any
    before_answer: Callable[[str, tuple[Any, ...]], Awaitable[None]]

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def read(*args: Any) -> Any:
            result = await getattr(self.timeline, name)(*args)
            await self.before_answer(name, args)
            return result

        return read


def test_page_is_current_when_another_viewers_list_shows_a_retraction_first() -> None:
    """The process heard of the burst before, so the later message contains nothing new."""
    processes = make_processes(mentions=3)
    processes.bursts.write([burst_of(BurstKey(OF_LYRA, seq), processes.clock) for seq in (4, 5)], [])
    for inbox in processes.inboxes:
        inbox.subject_cache.run_length = inbox.subject_cache.max_positions = 2
    newest, older = BurstKey(OF_NOVA, 3), [str(SECOND), str(FIRST)]
    grown = replace(processes.bursts.by_key[newest], version=2, count=2)
    processes.bursts.write([grown], [])
    processes.clock.advance(SECONDS)
    assert processes.open(0) == ([str(newest), *older], 3)
    processes.bursts.write([replace(grown, version=3, count=0)], [])
    processes.open(0, LEE)
    processes.clock.advance(2 * SECONDS)
    assert processes.open(0) == (older, 2)


def test_burst_that_moves_up_during_a_read_is_listed_once() -> None:
    processes = make_processes(mentions=60)
    processes.pull.generation()
    processes.pull.rebuild([[*processes.bursts.by_key.values()]], SINCE, processes.clock.now())
    subjects, moved = processes.inboxes[0].subject_cache, BurstKey(OF_NOVA, 29)
    subjects.recent_changes.clear()  # recently announced bursts need no read

    async def move(name: str, args: tuple[Any, ...]) -> None:
        if name == "bursts" and moved in args[0] and processes.bursts.by_key[moved].version == 1:
            later = replace(processes.bursts.by_key[moved], version=2, opened_at=processes.clock.now())
            processes.bursts.write([later], [])
            subjects.apply(later)

    subjects.timeline = Reading(subjects.timeline, move)  # type: ignore[assignment] # has the same methods
    shown = run_sync(processes.inboxes[0].open(KIM, limit=50)).page.items
    assert processes.bursts.by_key[moved].version == 2
    assert Counter(item.entry.key for item in shown).most_common(1)[0][1] == 1


def test_retraction_is_shown_when_its_list_was_too_slow_to_be_cached() -> None:
    processes = make_processes()
    subjects = processes.inboxes[0].subject_cache
    subjects.max_recent_changes = 1

    async def change(name: str, args: tuple[Any, ...]) -> None:
        if name == "older_than":
            for seq in (4, 5):
                subjects.apply(burst_of(BurstKey(OF_LYRA, seq), processes.clock))

    subjects.timeline = Reading(subjects.timeline, change)  # type: ignore[assignment] # has the same methods
    assert processes.open(0) == ([str(FIRST)], 1)
    retracted = replace(processes.bursts.by_key[FIRST], version=2, count=0)
    processes.bursts.write([retracted], [])
    subjects.apply(retracted)
    assert processes.open(0) == ([], 0)


class OutdatedIndex:
    """An index that lists bursts that are no longer in the store."""

    def __init__(self, processes: CachedApiProcesses) -> None:
        self.clock, self.first = processes.clock, processes.bursts.by_key[FIRST]

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists:
        now = self.clock.now()
        missing = [(now - timedelta(seconds=seq), BurstKey(OF_NOVA, 100 + seq)) for seq in range(60)]
        places = [*missing, (self.first.opened_at, FIRST)]
        lists = {
            subject: SubjectList(positions=places if subject == OF_NOVA else [], complete_since=now - timedelta(days=3))
            for subject in subjects
        }
        return SubjectLists(lists=lists, as_of=now)


def test_cache_size_equals_the_sum_of_its_entries() -> None:
    processes = make_processes()
    subjects = processes.inboxes[0].subject_cache
    subjects.pull = OutdatedIndex(processes)  # type: ignore[assignment] # only the methods that are called
    assert processes.open(0) == ([str(FIRST)], 1)
    assert subjects.size == summed_size(subjects)


def summed_size(subjects: SubjectCache) -> int:
    return sum(listed.size for listed in subjects.cached_lists.values()) + sum(
        map(burst_size, subjects.bursts.values())
    )


def add_followers(processes: CachedApiProcesses, number: int) -> Sequence[UserId]:
    users = [UserId(f"u{at}") for at in range(number)]
    processes.directory.enrol([DirectoryEntry(user=user, member=Member(1_000 + at)) for at, user in enumerate(users)])
    for user in users:
        processes.people.follow(user, OF_NOVA, SINCE)
    return users


def with_shared_loads(inbox: Inbox) -> Inbox:
    """Share loads between concurrent opens, as an API process does."""
    subjects = inbox.subject_cache
    subjects.burst_loads, subjects.list_loads, subjects.extension_loads = Singleflight(), Singleflight(), Singleflight()
    return inbox


def test_concurrent_followers_read_older_bursts_once() -> None:
    processes = make_processes(mentions=150)
    users, reads = add_followers(processes, 50), Counter[str]()
    inbox = with_shared_loads(processes.inboxes[0])
    inbox.subject_cache.run_length = 64  # fewer than a badge counts

    async def slowly(name: str, args: tuple[Any, ...]) -> None:
        reads[name if name != "older_than" else f"older_than {args[1]}"] += 1
        await asyncio.sleep(0.001)

    inbox.subject_cache.timeline = Reading(inbox.subject_cache.timeline, slowly)  # type: ignore[assignment] # has the same methods

    async def run() -> Sequence[int]:
        openings = await asyncio.gather(*(inbox.open(user) for user in users))
        return [opening.badge.count for opening in openings if opening.badge is not None]

    assert asyncio.run(run()) == [BADGE_LIMIT] * len(users)
    deeper = {name: times for name, times in reads.items() if name.startswith("older_than InboxPosition")}
    assert deeper
    assert set(deeper.values()) == {1}


def test_viewers_during_and_after_a_load_read_a_burst_once() -> None:
    processes = make_processes()
    subjects, reads = with_shared_loads(processes.inboxes[0]).subject_cache, Counter[str]()
    subjects.recent_changes.clear()  # recently announced bursts need no read

    async def slowly(name: str, args: tuple[Any, ...]) -> None:
        reads[name] += 1
        await run_other_tasks(3)

    subjects.timeline = Reading(subjects.timeline, slowly)  # type: ignore[assignment] # has the same methods

    async def read(late: int) -> Collection[BurstKey]:
        await run_other_tasks(late)
        return [*await subjects.read_bursts([FIRST])]

    async def run() -> Sequence[Collection[BurstKey]]:
        return await asyncio.gather(*(read(late) for late in range(20)))

    assert asyncio.run(run()) == [[FIRST]] * 20
    assert reads == {"bursts": 1}


async def run_other_tasks(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def test_joined_load_is_repeated_after_the_cache_restarts() -> None:
    """A viewer sees every burst announced before the open, even if the load began before the burst was written."""
    processes = make_processes()
    early, late = add_followers(processes, 2)
    inbox = with_shared_loads(processes.inboxes[0])
    release, waiting = asyncio.Event(), [True]

    async def wait(name: str, args: tuple[Any, ...]) -> None:
        if waiting and name == "older_than" and OF_NOVA in args[0]:
            waiting.clear()
            await release.wait()

    inbox.subject_cache.timeline = Reading(inbox.subject_cache.timeline, wait)  # type: ignore[assignment] # has the same methods

    async def run() -> Sequence[str]:
        first = asyncio.create_task(inbox.open(early))
        await run_other_tasks(50)
        processes.publish(burst_of(SECOND, processes.clock))
        second = asyncio.create_task(inbox.open(late))
        await run_other_tasks(50)
        inbox.subject_cache.begin()
        release.set()
        await first
        return [str(item.entry.key) for item in (await second).page.items]

    assert asyncio.run(run()) == [str(SECOND), str(FIRST)]
