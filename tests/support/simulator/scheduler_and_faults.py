"""Decides by seed and script which thread runs, the time, crashes and failures."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import assert_never

from greenlet import getcurrent, greenlet

from notifier.domain.delivery.slice_and_pool import Pool
from tests.support.simulator.durable_state import DurableState
from tests.support.simulator.script import (
    AFTER_EFFECT,
    Changed,
    Failing,
    FailureMode,
    Fault,
    Frozen,
    Input,
    Killed,
    Lost,
    Opened,
    Outage,
    Part,
    QueueDamage,
    QueueDamaged,
    Resized,
    Retracted,
    Script,
    ScriptEntry,
    Stalled,
    Throttled,
    Tweeted,
    VerdictChanged,
    Wiped,
)

# Processes and their threads: each thread is a greenlet that switches at every port call.


class ProcessKilled(BaseException):
    """Raised in the threads of a killed process. The system catches no BaseException."""


@dataclass(slots=True, eq=False)
class Thread:
    name: str
    process: "Process"
    greenlet: greenlet
    wakes_at: datetime
    at: str = "start"
    """The call before or after which it is stopped."""
    next_failure: FailureMode | None = None
    """How its next call fails."""


@dataclass(slots=True, eq=False)
class Process:
    """A process; `starts` creates its threads by name, with fresh memory."""

    name: str
    starts: Callable[["Process", int], dict[str, Callable[[], None]]]
    start_count: int = 0
    threads: list[Thread] = field(default_factory=list)
    killed: bool = False
    back_at: datetime | None = None

    @property
    def dead(self) -> bool:
        return not self.threads


FOR_EVER = timedelta(days=3650)
TICKS = tuple(timedelta(milliseconds=n) for n in (*[0] * 14, *[1] * 5, 12))
"""Possible durations of a step."""


class Scheduler:
    def __init__(self, script: Script, state: DurableState, inputs: Callable[[Input], None]) -> None:
        self.state = state
        self.story: list[tuple[int, datetime, str]] = []
        self.points: dict[str, list[str]] = defaultdict(list)
        """Calls of each thread, before and after every effect."""
        self.step = 0
        self.pace = 1.0
        """Factor on all sleeps."""
        self.lost: set[str] = set()
        """Threads that were lost for good."""
        self._inputs = inputs
        self._random = Random(script.seed)
        self._processes: dict[str, Process] = {}
        self._threads: Sequence[Thread] = ()
        """Threads of all processes, in order of the processes."""
        self._any_killed = False
        """Whether the threads of a killed process have not ended yet."""
        self._any_down = False
        """Whether any process starts again later."""
        self._hub = getcurrent()
        self._current: Thread | None = None
        self._outages: dict[Part, datetime] = {}
        self._by_step: dict[int, list[ScriptEntry]] = defaultdict(list)
        self._by_point: dict[tuple[str, int], list[ScriptEntry]] = defaultdict(list)
        for entry in script.entries:
            if entry.point is None:
                self._by_step[entry.step].append(entry)
            else:
                self._by_point[entry.point].append(entry)

    def add(self, process: Process) -> None:
        self._processes[process.name] = process
        self._start(process)

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            self._step()

    def calm(self) -> None:
        """End all outages and drop the remaining entries that have a step.

        Entries at points stay, because many are reached late.
        """
        self._by_step.clear()
        self._outages.clear()

    def stop(self, label: str, part: Part) -> FailureMode | None:
        thread = self._give_way(label)
        if part in self._outages and self.state.clock.now() < self._outages[part]:
            return FailureMode.BEFORE
        failure, thread.next_failure = thread.next_failure, None
        if failure is not None:
            self.tell(f"{thread.name}: {label} fails {failure} its effect")
        return failure

    async def suspend(self, label: str) -> None:
        """Do nothing: `passed` has let other threads run."""

    def passed(self, label: str) -> None:
        self._give_way(f"{AFTER_EFFECT}{label}")

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            thread = self._running()
            lasting = timedelta(seconds=seconds * self.pace * self._random.uniform(0.8, 1.2))
            thread.wakes_at = self.state.clock.now() + timedelta(milliseconds=lasting // timedelta(milliseconds=1) + 1)
            thread.at = "asleep"
            self._hub.switch()

    def sleep_until_woken(self) -> None:
        """Sleep until the thread is woken."""
        self._running().wakes_at = self.state.clock.now() + FOR_EVER
        self._hub.switch()

    def wake(self, name: str) -> None:
        for thread in self._threads:
            if thread.name == name:
                thread.wakes_at = self.state.clock.now()

    def running(self) -> str:
        return self._running().name

    def tell(self, text: str) -> None:
        self.story.append((self.step, self.state.clock.now(), text))

    def close(self) -> None:
        for process in self._processes.values():
            self._end(process)

    def _step(self) -> None:
        self.step += 1
        for entry in self._by_step.pop(self.step, ()):
            self._apply(entry)
        if self._any_killed:
            self._end_killed()
        thread = self._next()
        self._current = thread
        thread.greenlet.switch()
        self._current = None
        if self._any_killed:
            self._end_killed()
        self.state.clock.advance(TICKS[self._random_below(len(TICKS))])

    def _next(self) -> Thread:
        ready: list[Thread] = []
        while not ready:
            now = self.state.clock.now()
            if self._any_down:
                self._restart_due(now)
            ready = [thread for thread in self._threads if thread.wakes_at <= now]
            if not ready:
                wakes = [thread.wakes_at for thread in self._threads]
                wakes += [process.back_at for process in self._processes.values() if process.back_at]
                self.state.clock.advance(min(wakes) - now)
        return ready[self._random_below(len(ready))]

    def _random_below(self, n: int) -> int:
        """Return a random number below n, like `random.choice` and in half its time: each step needs two."""
        bits = n.bit_length()
        while (number := self._random.getrandbits(bits)) >= n:
            pass
        return number

    def _restart_due(self, now: datetime) -> None:
        for process in self._processes.values():
            if process.back_at is not None and process.back_at <= now:
                self._start(process)
        self._any_down = any(process.back_at is not None for process in self._processes.values())

    def _running(self) -> Thread:
        assert self._current is not None, "only a thread of the simulation may call this"
        return self._current

    def _give_way(self, label: str) -> Thread:
        thread = self._running()
        if thread.process.dead:
            raise ProcessKilled
        thread.at = label
        points = self.points[thread.name]
        points.append(label)
        for entry in self._by_point.pop((thread.name, len(points)), ()) if self._by_point else ():
            self._apply(entry)
        self._hub.switch()
        return thread

    def _apply(self, entry: ScriptEntry) -> None:
        match entry.what:
            case Tweeted() | Retracted() | Changed() | Resized() | Opened() | Throttled() | VerdictChanged():
                self.tell(f"{entry.what}")
                self._inputs(entry.what)
            case fault:
                self._apply_fault(fault)

    def _apply_fault(self, fault: Fault) -> None:
        now = self.state.clock.now()
        match fault:
            case Killed(process=name, back_after=after):
                self._kill(name, now + after)
            case Stalled(name=name, lasting=lasting):
                self._stall(name, lasting)
            case Lost(thread=name):
                self._lose(name)
            case Failing(thread=name, how=how):
                self._let_fail(name, how)
            case Outage(part=part, lasting=lasting):
                self.tell(f"{part} is out of reach for {lasting}")
                self._outages[part] = now + lasting
            case Wiped():
                self.tell("Redis comes back empty")
                self.state.wipe()
            case QueueDamaged(pool=pool, how=how):
                self._damage_queue(Pool(pool), how)
            case Frozen(lasting=lasting):
                self.tell(f"the machine sleeps for {lasting}")
                self.state.clock.advance(lasting)
            case never:
                assert_never(never)

    def _kill(self, name: str, back_at: datetime) -> None:
        if name in self._processes:
            self._processes[name].killed = self._any_killed = self._any_down = True
            self._processes[name].back_at = back_at

    def _stall(self, name: str, lasting: timedelta) -> None:
        for thread in self._threads:
            if name in (thread.name, thread.process.name):
                self.tell(f"{thread.name} sleeps for {lasting}, at {thread.at}")
                thread.wakes_at = max(thread.wakes_at, self.state.clock.now() + lasting)

    def _lose(self, name: str) -> None:
        """Stall the thread for good, so that another process takes over its work."""
        self.tell(f"{name} is lost")
        self.lost.add(name)
        self._stall(name, FOR_EVER)

    def _let_fail(self, name: str, how: FailureMode) -> None:
        for thread in self._threads:
            if thread.name == name:
                thread.next_failure = how

    def _damage_queue(self, pool: Pool, how: QueueDamage) -> None:
        waiting = self.state.queue.waiting[pool]
        self.tell(f"the queue {pool} with {len(waiting)} tasks: {how}")
        match how:
            case QueueDamage.LOSE:
                del waiting[: 1 + len(waiting) // 2]
            case QueueDamage.DOUBLE:
                waiting.extend(list(waiting))
            case QueueDamage.SHUFFLE:
                self._random.shuffle(waiting)

    def _start(self, process: Process) -> None:
        process.start_count += 1
        process.back_at = None
        if process.start_count > 1:
            self.tell(f"{process.name} starts again")
        now = self.state.clock.now()
        process.threads = [
            Thread(name=name, process=process, greenlet=greenlet(run, self._hub), wakes_at=now)
            for name, run in process.starts(process, process.start_count).items()
            if name not in self.lost
        ]
        self._collect_threads()

    def _collect_threads(self) -> None:
        self._threads = [thread for process in self._processes.values() for thread in process.threads]

    def _end_killed(self) -> None:
        self._any_killed = False
        for process in self._processes.values():
            if process.killed:
                where = ", ".join(f"{t.name} at {t.at}" for t in process.threads if t.at != "asleep")
                self.tell(f"{process.name} is killed; {where}")
                self._end(process)

    def _end(self, process: Process) -> None:
        threads, process.threads, process.killed = process.threads, [], False
        for thread in threads:
            self._current = thread
            with suppress(ProcessKilled):
                thread.greenlet.throw(ProcessKilled)
        self._current = None
        self._collect_threads()
