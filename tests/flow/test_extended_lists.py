"""Lists of bursts in memory that grow, move or begin anew while somebody reads them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.flow.inbox.inbox import Inbox
from notifier.flow.inbox.page import BADGE_MOST
from notifier.flow.inbox.shared_loads import Singleflight
from notifier.flow.inbox.subject_cache import SubjectCache, burst_size
from notifier.ports.directory import DirectoryEntry
from notifier.ports.pull_index import SubjectList, SubjectLists
from tests.support.interleavings.orders import Threads
from tests.support.interleavings.world import FIRST, KIM, LEE, OF_LYRA, OF_NOVA, SECOND, SINCE, World, burst_of
from tests.support.simulator.inbox_visits import driven

SECONDS = timedelta(seconds=1)


def world(mentions: int = 1) -> World:
    """Kim and lee follow nova, who was mentioned so many times; no index lists it. Process 0 has looked just now."""
    found = World(Threads(stops_behind=False, atomic=[]), warm=())
    found.pull.wipe()
    found.people.follow(LEE, OF_NOVA, SINCE)
    for seq in range(2, mentions + 1):
        found.clock.advance(SECONDS)
        found.bursts.write([burst_of(BurstKey(OF_NOVA, seq), found.clock)], [])
    found.clock.advance(timedelta(minutes=1))
    driven(found.inboxes[0].facts.looks.look((), patient=True))
    return found


@dataclass
class Reading:
    """A timeline during whose reads something happens."""

    timeline: Any
    before_answer: Callable[[str, tuple[Any, ...]], Awaitable[None]]

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def read(*args: Any) -> Any:
            found = await getattr(self.timeline, name)(*args)
            await self.before_answer(name, args)
            return found

        return read


def test_page_ends_when_the_list_of_another_viewer_brings_a_retraction_before_its_word() -> None:
    """The burst was heard of lately, so that its word, when it comes, has nothing new to say."""
    found = world(mentions=3)
    found.bursts.write([burst_of(BurstKey(OF_LYRA, seq), found.clock) for seq in (4, 5)], [])
    for inbox in found.inboxes:
        inbox.subjects.run = inbox.subjects.most_places = 2
    newest, older = BurstKey(OF_NOVA, 3), [str(SECOND), str(FIRST)]
    grown = replace(found.bursts.by_key[newest], version=2, count=2)
    found.bursts.write([grown], [])
    found.clock.advance(SECONDS)
    assert found.open(0) == ([str(newest), *older], 3)
    found.bursts.write([replace(grown, version=3, count=0)], [])
    found.open(0, LEE)
    found.clock.advance(2 * SECONDS)
    assert found.open(0) == (older, 2)


def test_burst_that_moves_up_while_a_page_is_read_makes_nothing_appear_twice() -> None:
    found = world(mentions=60)
    found.pull.generation()
    found.pull.rebuilt([[*found.bursts.by_key.values()]], SINCE, found.clock.now())
    subjects, moved = found.inboxes[0].subjects, BurstKey(OF_NOVA, 29)
    subjects.recent.clear()  # what was heard lately needs no read

    async def move(name: str, args: tuple[Any, ...]) -> None:
        if name == "bursts" and moved in args[0] and found.bursts.by_key[moved].version == 1:
            later = replace(found.bursts.by_key[moved], version=2, opened_at=found.clock.now())
            found.bursts.write([later], [])
            subjects.apply(later)

    subjects.timeline = Reading(subjects.timeline, move)  # type: ignore[assignment] # of the same methods
    shown = driven(found.inboxes[0].open(KIM, limit=50)).page.items
    assert found.bursts.by_key[moved].version == 2
    assert Counter(item.entry.key for item in shown).most_common(1)[0][1] == 1


def test_page_ends_with_a_change_also_where_its_list_was_too_slow_to_be_cached() -> None:
    found = world()
    subjects = found.inboxes[0].subjects
    subjects.most_recent = 1

    async def change(name: str, args: tuple[Any, ...]) -> None:
        if name == "before":
            for seq in (4, 5):
                subjects.apply(burst_of(BurstKey(OF_LYRA, seq), found.clock))

    subjects.timeline = Reading(subjects.timeline, change)  # type: ignore[assignment] # of the same methods
    assert found.open(0) == ([str(FIRST)], 1)
    retracted = replace(found.bursts.by_key[FIRST], version=2, count=0)
    found.bursts.write([retracted], [])
    subjects.apply(retracted)
    assert found.open(0) == ([], 0)


class Forgetful:
    """An index that lists bursts that the store does not have any more."""

    def __init__(self, found: World) -> None:
        self.clock, self.first = found.clock, found.bursts.by_key[FIRST]

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists:
        now = self.clock.now()
        gone = [(now - timedelta(seconds=seq), BurstKey(OF_NOVA, 100 + seq)) for seq in range(60)]
        places = [*gone, (self.first.opened_at, FIRST)]
        lists = {
            subject: SubjectList(places=places if subject == OF_NOVA else [], complete_since=now - timedelta(days=3))
            for subject in subjects
        }
        return SubjectLists(lists=lists, as_of=now)


def test_size_stays_the_sum_of_what_is_cached() -> None:
    found = world()
    subjects = found.inboxes[0].subjects
    subjects.pull = Forgetful(found)  # type: ignore[assignment] # what is asked of it
    assert found.open(0) == ([str(FIRST)], 1)
    assert subjects.size == measured(subjects)


def measured(subjects: SubjectCache) -> int:
    return sum(news.size for news in subjects.subjects.values()) + sum(map(burst_size, subjects.bursts.values()))


def followers(found: World, number: int) -> Sequence[UserId]:
    users = [UserId(f"u{at}") for at in range(number)]
    found.directory.enrol([DirectoryEntry(user=user, member=Member(1_000 + at)) for at, user in enumerate(users)])
    for user in users:
        found.people.follow(user, OF_NOVA, SINCE)
    return users


def concurrent(inbox: Inbox) -> Inbox:
    """With loads that concurrent openings share, as an API process has them."""
    subjects = inbox.subjects
    subjects.loads, subjects.subject_loads, subjects.extensions = Singleflight(), Singleflight(), Singleflight()
    return inbox


def test_followers_who_come_at_once_read_older_bursts_once() -> None:
    found = world(mentions=150)
    users, reads = followers(found, 50), Counter[str]()
    inbox = concurrent(found.inboxes[0])
    inbox.subjects.run = 64  # fewer than a badge counts

    async def slowly(name: str, args: tuple[Any, ...]) -> None:
        reads[name if name != "before" else f"before {args[1]}"] += 1
        await asyncio.sleep(0.001)

    inbox.subjects.timeline = Reading(inbox.subjects.timeline, slowly)  # type: ignore[assignment] # of the same methods

    async def run() -> Sequence[int]:
        openings = await asyncio.gather(*(inbox.open(user) for user in users))
        return [opening.badge.count for opening in openings if opening.badge is not None]

    assert asyncio.run(run()) == [BADGE_MOST] * len(users)
    deeper = {name: times for name, times in reads.items() if name.startswith("before InboxPosition")}
    assert deeper
    assert set(deeper.values()) == {1}


def test_viewers_who_come_at_any_moment_of_a_load_and_after_it_read_a_burst_once() -> None:
    found = world()
    subjects, reads = concurrent(found.inboxes[0]).subjects, Counter[str]()
    subjects.recent.clear()  # what was heard lately needs no read

    async def slowly(name: str, args: tuple[Any, ...]) -> None:
        reads[name] += 1
        await turns(3)

    subjects.timeline = Reading(subjects.timeline, slowly)  # type: ignore[assignment] # of the same methods

    async def read(late: int) -> Collection[BurstKey]:
        await turns(late)
        return [*await subjects.bodies([FIRST])]

    async def run() -> Sequence[Collection[BurstKey]]:
        return await asyncio.gather(*(read(late) for late in range(20)))

    assert asyncio.run(run()) == [[FIRST]] * 20
    assert reads == {"bursts": 1}


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def test_load_that_was_joined_is_repeated_where_the_cache_began_anew() -> None:
    """Who had heard of a burst before sees it, also where the load was begun before it was written."""
    found = world()
    early, late = followers(found, 2)
    inbox = concurrent(found.inboxes[0])
    let_go, waits = asyncio.Event(), [True]

    async def wait(name: str, args: tuple[Any, ...]) -> None:
        if waits and name == "before" and OF_NOVA in args[0]:
            waits.clear()
            await let_go.wait()

    inbox.subjects.timeline = Reading(inbox.subjects.timeline, wait)  # type: ignore[assignment] # of the same methods

    async def run() -> Sequence[str]:
        first = asyncio.create_task(inbox.open(early))
        await turns(50)
        found.publish(burst_of(SECOND, found.clock))
        second = asyncio.create_task(inbox.open(late))
        await turns(50)
        inbox.subjects.begin()
        let_go.set()
        await first
        return [str(item.entry.key) for item in (await second).page.items]

    assert asyncio.run(run()) == [str(SECOND), str(FIRST)]
