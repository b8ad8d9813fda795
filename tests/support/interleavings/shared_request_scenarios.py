"""Scenarios in which requests of one process share loads and look-ups while something changes."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from notifier.domain.ids import UserId
from tests.support.interleavings.cached_api_processes import (
    BEFORE,
    FIRST,
    KIM,
    LEE,
    OF_NOVA,
    OTHERS,
    SECOND,
    SINCE,
    CachedApiProcesses,
    ShownInbox,
)
from tests.support.interleavings.scenarios import (
    EVERYTHING,
    NO_SUBJECT,
    Start,
    empty_index,
    nothing,
    small,
    started_processes,
)
from tests.support.interleavings.task_orders import FrozenLoop, Tasks
from tests.support.interleavings.thread_orders import orders
from tests.support.interleavings.writers import Writer, mark, mention

LEES = [str(key) for key in reversed(OTHERS)]
LEES_BEFORE, LEES_AFTER = ([str(FIRST), *LEES], 4), ([str(SECOND), str(FIRST), *LEES], 5)
"""Lee's inbox before and after nova is mentioned again. Lee follows nova, too."""
Shown = dict[str, tuple[UserId, ShownInbox]]
"""The user and the shown inbox of each request."""
AFTER_NEWS = ([str(SECOND), str(FIRST)], 2)
"""Kim's inbox after a mention that no page shows yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRequests:
    """Requests open inboxes in process 0, as tasks of one event loop, while a writer and events run."""

    writer: Writer
    start: Start
    users: Sequence[UserId] = (KIM, KIM)
    """The user of each request."""
    before: ShownInbox = BEFORE
    """Kim's inbox before the write."""
    events: Mapping[str, Callable[[CachedApiProcesses], None]] = field(default_factory=dict)
    prepare: Callable[[CachedApiProcesses], None] = nothing
    switches: int = 1

    def failures(self) -> Iterator[str]:
        """Run every order, and describe each that shows a wrong inbox."""
        with asyncio.Runner(loop_factory=FrozenLoop) as runner:
            for order in orders(self.switches):
                tasks = Tasks()
                processes = started_processes(tasks, self.start, self.prepare, runner.get_loop())
                shown: Shown = {}
                openings = {
                    f"request {number}": partial(_open, f"request {number}", user, processes, shown)
                    for number, user in enumerate(self.users)
                }
                events = {name: partial(event, processes) for name, event in self.events.items()}
                runner.run(tasks.run(openings, partial(self.writer.write, processes), events, order))
                if wrong := [*self._wrong(processes, tasks, shown)]:
                    yield "; ".join([*wrong, *tasks.steps])

    def _wrong(self, processes: CachedApiProcesses, tasks: Tasks, shown: Shown) -> Iterator[str]:
        for name, (user, inbox) in shown.items():
            before, after = self._expected(user)
            written_before = "writer ends" in tasks.steps[: tasks.steps.index(f"{name} begins")]
            if inbox not in ([after] if written_before else [before, after]):
                yield f"{name} showed {inbox}"
        for process in (0, 1, 0, 1):  # the second time from what the first opening left in the cache
            if (after := processes.open(process)) != self.writer.after:
                yield f"afterwards process {process} shows {after}"

    def _expected(self, user: UserId) -> tuple[ShownInbox, ShownInbox]:
        """Return the inbox before and after the write."""
        return (self.before, self.writer.after) if user == KIM else (LEES_BEFORE, LEES_AFTER)


async def _open(name: str, user: UserId, processes: CachedApiProcesses, shown: Shown) -> None:
    shown[name] = user, await processes.open_async(0, user)


def idle(processes: CachedApiProcesses) -> None:
    """Redis loses its content, and nothing is read for so long that the cache starts over at the next look-up."""
    processes.versions.wipe()
    processes.clock.advance(timedelta(minutes=3))


def lee_follows_nova(processes: CachedApiProcesses) -> None:
    empty_index(processes)
    processes.people.follow(LEE, OF_NOVA, SINCE)


def news_of_an_evicted_subject(processes: CachedApiProcesses) -> None:
    """Mention nova again, and let Lee's page evict nova's bursts from the cache: Kim's page needs the store."""
    empty_index(processes)
    mention(processes)
    small(processes, NO_SUBJECT)
    processes.open(0, LEE)


def _scenarios() -> Iterator[tuple[str, SharedRequests]]:
    for name, writer in EVERYTHING.items():
        yield f"shared, {name}, cold", SharedRequests(writer=writer, start=Start.COLD)
    for name in ("mark", "unfollow", "retract", "mention"):
        yield f"shared, {name}, forgotten", SharedRequests(writer=EVERYTHING[name], start=Start.FORGOTTEN)
    yield (
        "shared, mention, restart",
        SharedRequests(
            writer=EVERYTHING["mention"],
            start=Start.COLD,
            users=(KIM, LEE),
            events={"idle": idle},
            prepare=lee_follows_nova,
        ),
    )
    yield (
        "shared, mark after news",
        SharedRequests(
            writer=Writer(write=mark, after=([str(SECOND)], 1)),
            start=Start.WARM,
            users=(KIM, KIM, KIM),
            before=AFTER_NEWS,
            prepare=news_of_an_evicted_subject,
        ),
    )


SHARED_REQUESTS = dict(_scenarios())
