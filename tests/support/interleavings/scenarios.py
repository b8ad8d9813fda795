"""Scenarios: an inbox is opened while something changes, in every order of the port calls."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum, auto
from functools import partial

from notifier.domain.ids import BurstKey
from notifier.ports.inbox_cache_freshness import PLACEHOLDER_TTL, Scope
from tests.support.interleavings.cached_api_processes import (
    BEFORE,
    LEE,
    OF_LYRA,
    CachedApiProcesses,
    ShownInbox,
    burst_of,
)
from tests.support.interleavings.thread_orders import Threads, Work, orders
from tests.support.interleavings.writers import OF_BURSTS, OF_FACTS, Writer, mark, see
from tests.support.simulator.port_proxy import Gate

WITHIN = timedelta(seconds=1)
"""A change that Redis missed is shown within this time."""
NO_SUBJECT, NO_BODY = 4_000, 7_500
"""Bytes of a cache from which Lee's opening evicts nova, and of one from which it evicts the body of nova's burst."""

Step = Callable[[CachedApiProcesses, Threads], None]


class Start(StrEnum):
    COLD = auto()
    """Kim is new to both processes."""
    WARM = auto()
    """Both processes have Kim's page."""
    REMEMBERED = auto()
    """Process 1 has Kim's page and left it in Redis; process 0 has not seen Kim."""
    FORGOTTEN = auto()
    """Both processes have it, and Redis has lost the versions: the next opening reads the facts."""


WARM_PROCESSES = {Start.COLD: (), Start.REMEMBERED: (1,), Start.WARM: (0, 1), Start.FORGOTTEN: (0, 1)}


def nothing(processes: CachedApiProcesses) -> None:
    """Prepare nothing."""


def started_processes(
    gate: Gate,
    start: Start,
    prepare: Callable[[CachedApiProcesses], None],
    event_loop: AbstractEventLoop | None = None,
) -> CachedApiProcesses:
    processes = CachedApiProcesses(gate, warm=WARM_PROCESSES[start], event_loop=event_loop)
    if start is Start.FORGOTTEN:
        processes.versions.entries.clear()
    prepare(processes)
    return processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Process 0 opens Kim's inbox while the writer and the other threads run."""

    writer: Writer
    start: Start
    other_threads: Mapping[str, Step] = field(default_factory=dict)
    """Threads that stop only where they pause."""
    prepare: Callable[[CachedApiProcesses], None] = nothing
    atomic_writer: bool = False
    shares_memory: bool = False
    """Another thread runs in process 0, too."""
    switches: int = 2
    """2: the opening stops once and the writer stops once, at any two calls."""
    redis_missed_it: bool = False
    """Redis missed the change, so processes may show the old state for up to WITHIN."""

    def failures(self) -> Iterator[str]:
        """Run every order, and describe each that shows a wrong inbox."""
        for order in orders(self.switches):
            atomic = [*self.other_threads, *(["writer"] if self.atomic_writer else [])]
            threads = Threads(stops_behind=self.shares_memory, atomic=atomic)
            processes = started_processes(threads, self.start, self.prepare)
            opened: list[ShownInbox] = []
            threads.run(self._work(processes, threads, opened), order)
            if wrong := [*self._wrong(processes, threads, opened[0])]:
                yield "; ".join([*wrong, *threads.steps])

    def _work(self, processes: CachedApiProcesses, threads: Threads, opened: list[ShownInbox]) -> Mapping[str, Work]:
        return {
            "opening": lambda: opened.append(processes.open(0)),
            "writer": lambda: self.writer.write(processes),
            **{name: partial(step, processes, threads) for name, step in self.other_threads.items()},
        }

    def _wrong(self, processes: CachedApiProcesses, threads: Threads, opened: ShownInbox) -> Iterator[str]:
        allowed = [BEFORE, self.writer.after]
        if "writer ends" in threads.steps[: self._began(threads)] and not self.redis_missed_it:
            allowed.remove(BEFORE)
        if opened not in allowed:
            yield f"the opening showed {opened}"
        if self.redis_missed_it:
            processes.clock.advance(WITHIN)
        for process in (0, 1, 0, 1):  # the second time from what the first opening left in the cache
            if (shown := processes.open(process)) != self.writer.after:
                yield f"afterwards process {process} shows {shown}"

    @staticmethod
    def _began(threads: Threads) -> int:
        """Return at which step the opening began."""
        return next(at for at, step in enumerate(threads.steps) if step.startswith("opening"))


def wipe(processes: CachedApiProcesses, _: Threads) -> None:
    processes.versions.wipe()


def expire(processes: CachedApiProcesses, _: Threads) -> None:
    """Let a placeholder expire, because the writer is slower than any write should be."""
    processes.clock.advance(PLACEHOLDER_TTL + timedelta(seconds=1))


@dataclass(slots=True)
class FailOver:
    """A replica takes over that has the versions of the beginning, and none of the later changes."""

    replica: Mapping[Scope, str] = field(default_factory=dict)

    def prepare(self, processes: CachedApiProcesses) -> None:
        self.replica = {scope: entry.version for scope, entry in processes.versions.entries.items()}

    def __call__(self, processes: CachedApiProcesses, _: Threads) -> None:
        processes.fail_over(self.replica)


def redis_away(processes: CachedApiProcesses) -> None:
    processes.versions.away = processes.bus.stalled = True


def redis_back(processes: CachedApiProcesses) -> None:
    processes.versions.away = processes.bus.stalled = False


def outage(processes: CachedApiProcesses, threads: Threads) -> None:
    redis_away(processes)
    threads.pause("Redis is away")
    redis_back(processes)


def later(processes: CachedApiProcesses, _: Threads) -> None:
    """Redis is back, and process 0 reads the change feed."""
    redis_back(processes)
    processes.clock.advance(WITHIN)
    processes.open(0, LEE)


def after_idling(processes: CachedApiProcesses, _: Threads) -> None:
    """Redis is back, and both processes restart the change feed."""
    redis_back(processes)
    processes.clock.advance(timedelta(minutes=3))
    processes.open(0, LEE)
    processes.open(1, LEE)


def empty_index(processes: CachedApiProcesses) -> None:
    """Leave the pull index empty, so that subjects are loaded from the store."""
    processes.pull.wipe()


def another(processes: CachedApiProcesses, _: Threads) -> None:
    processes.open(0)


def small(processes: CachedApiProcesses, bytes: int) -> None:
    for inbox in processes.inboxes:
        inbox.subject_cache.max_bytes = bytes


def shallow(processes: CachedApiProcesses) -> None:
    """Read one burst at a time, and list one of a subject, so that a page needs older ones from the store."""
    empty_index(processes)
    for inbox in processes.inboxes:
        inbox.subject_cache.run_length = inbox.subject_cache.max_positions = 1


def short_memory(processes: CachedApiProcesses) -> None:
    """Remember a single change."""
    empty_index(processes)
    for inbox in processes.inboxes:
        inbox.subject_cache.max_recent_changes = 1


def crowd(processes: CachedApiProcesses, _: Threads) -> None:
    """Let process 0 receive more changes than it remembers."""
    for seq in (4, 5):
        processes.publish(burst_of(BurstKey(OF_LYRA, seq), processes.clock))
    processes.open(0, LEE)


def without_redis(writer: Writer) -> Writer:
    def write(processes: CachedApiProcesses) -> None:
        redis_away(processes)
        writer.write(processes)
        redis_back(processes)

    return replace(writer, write=write)


def small_page(processes: CachedApiProcesses, _: Threads) -> None:
    """Open the same inbox with a page of another size, which is cached separately."""
    processes.open(0, limit=10)


def lee(processes: CachedApiProcesses, _: Threads) -> None:
    processes.open(0, LEE)


EVERYTHING = {**OF_FACTS, **OF_BURSTS}


def _without_faults() -> Iterator[tuple[str, Scenario]]:
    for name, writer in EVERYTHING.items():
        for start in (Start.COLD, Start.REMEMBERED, Start.FORGOTTEN):
            yield f"{name}, {start}", Scenario(writer=writer, start=start)
    for write in (mark, see):
        here = replace(OF_FACTS[write.__name__], write=partial(write, process=0))
        yield f"{write.__name__} here", Scenario(writer=here, start=Start.FORGOTTEN, shares_memory=True)
    for name, writer in OF_BURSTS.items():
        yield f"{name}, another", Scenario(writer=writer, start=Start.COLD, other_threads={"another": another})
        yield f"{name}, wipe", Scenario(writer=writer, start=Start.WARM, other_threads={"wipe": wipe})


def _with_lost_versions() -> Iterator[tuple[str, Scenario]]:
    for name in ("mark", "unfollow", "follow_many"):
        of_facts = Scenario(writer=OF_FACTS[name], start=Start.FORGOTTEN)
        yield f"{name}, wipe", replace(of_facts, other_threads={"wipe": wipe})
        yield f"{name}, expire", replace(of_facts, other_threads={"expire": expire})
        server = FailOver()
        yield (
            f"{name}, fail over",
            replace(of_facts, start=Start.WARM, other_threads={"fail over": server}, prepare=server.prepare),
        )


def _without_redis() -> Iterator[tuple[str, Scenario]]:
    for name in ("mark", "unfollow"):
        changed = Scenario(writer=OF_FACTS[name], start=Start.WARM, redis_missed_it=True)
        yield f"{name}, outage", replace(changed, other_threads={"outage": outage})
    for name in ("mark", "unfollow", "retract", "mention"):
        missed = Scenario(
            writer=without_redis(EVERYTHING[name]),
            start=Start.FORGOTTEN,
            atomic_writer=True,
            shares_memory=True,
            redis_missed_it=True,
        )
        yield f"{name} without Redis", replace(missed, other_threads={"later": later})
        for start in (Start.COLD, Start.WARM):
            idle = replace(missed, start=start, other_threads={"idle": after_idling}, prepare=empty_index)
            yield f"{name} without Redis, idle, {start}", idle


def _in_small_caches() -> Iterator[tuple[str, Scenario]]:
    for name, writer in OF_BURSTS.items():
        for bytes in (NO_SUBJECT, NO_BODY):
            for start in (Start.COLD, Start.WARM):
                yield (
                    f"{name}, {bytes} bytes, {start}",
                    Scenario(
                        writer=writer,
                        start=start,
                        other_threads={"lee": lee, "small page": small_page},
                        prepare=partial(small, bytes=bytes),
                        switches=1,
                    ),
                )


def _with_short_memory() -> Iterator[tuple[str, Scenario]]:
    for name, writer in OF_BURSTS.items():
        for start in (Start.COLD, Start.WARM):
            yield (
                f"{name}, crowd, {start}",
                Scenario(
                    writer=writer,
                    start=start,
                    other_threads={"crowd": crowd},
                    prepare=short_memory,
                    shares_memory=True,
                ),
            )


def _with_shallow_lists() -> Iterator[tuple[str, Scenario]]:
    for name, writer in OF_BURSTS.items():
        scenario = Scenario(writer=writer, start=Start.COLD, other_threads={"another": another}, prepare=shallow)
        yield f"{name}, shallow", scenario
        yield f"{name}, shallow, lee", replace(scenario, other_threads={"lee": lee}, switches=1)


SCENARIOS = dict(
    [
        *_without_faults(),
        *_with_lost_versions(),
        *_without_redis(),
        *_in_small_caches(),
        *_with_short_memory(),
        *_with_shallow_lists(),
    ]
)
