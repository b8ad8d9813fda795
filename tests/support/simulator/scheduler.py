"""The scheduler: which thread goes on, what time it is, who dies and what fails; the seed decides, and the script."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import assert_never

from greenlet import getcurrent, greenlet

from notifier.domain.delivery.slice import Pool
from tests.support.simulator.durable_state import Ground
from tests.support.simulator.script import (
    BEHIND,
    Changed,
    Failing,
    Fault,
    Frozen,
    Happening,
    How,
    Input,
    Judged,
    Killed,
    Lost,
    Meddled,
    Meddling,
    Opened,
    Outage,
    Part,
    Resized,
    Script,
    Stalled,
    TakenBack,
    Throttled,
    Tweeted,
    Wiped,
)

# Processes and their threads, each thread a greenlet that gives way at every port call.


class Ended(BaseException):
    """The process is gone. Nothing in the system catches this."""


@dataclass(slots=True, eq=False)
class Thread:
    name: str
    process: "Process"
    greenlet: greenlet
    wakes_at: datetime
    at: str = "start"
    """The call it stands before or behind."""
    fails: How | None = None
    """What becomes of its next call."""


@dataclass(slots=True, eq=False)
class Process:
    """`starts` makes its threads, by name, with nothing in memory but what it reads from outside."""

    name: str
    starts: Callable[["Process", int], dict[str, Callable[[], None]]]
    lives: int = 0
    threads: list[Thread] = field(default_factory=list)
    doomed: bool = False
    back_at: datetime | None = None

    @property
    def dead(self) -> bool:
        return not self.threads


FOR_EVER = timedelta(days=3650)
TICKS = tuple(timedelta(milliseconds=n) for n in (*[0] * 14, *[1] * 5, 12))
"""What a step may take."""


class Scheduler:
    def __init__(self, script: Script, ground: Ground, inputs: Callable[[Input], None]) -> None:
        self.ground = ground
        self.story: list[tuple[int, datetime, str]] = []
        self.points: dict[str, list[str]] = defaultdict(list)
        """What each thread called, before and behind every effect."""
        self.step = 0
        self.pace = 1.0
        """How much longer than usual everybody sleeps."""
        self.lost: set[str] = set()
        """Threads that have ended for good."""
        self._inputs = inputs
        self._random = Random(script.seed)
        self._processes: dict[str, Process] = {}
        self._threads: Sequence[Thread] = ()
        """Of all processes, in their order."""
        self._doomed = False
        """Whether any of them is."""
        self._hub = getcurrent()
        self._current: Thread | None = None
        self._outages: dict[Part, datetime] = {}
        self._by_step: dict[int, list[Happening]] = defaultdict(list)
        self._by_point: dict[tuple[str, int], list[Happening]] = defaultdict(list)
        for happening in script.happenings:
            if happening.point is None:
                self._by_step[happening.step].append(happening)
            else:
                self._by_point[happening.point].append(happening)

    def add(self, process: Process) -> None:
        self._processes[process.name] = process
        self._start(process)

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            self._one()

    def calm(self) -> None:
        """No fault comes any more but at points, by which many threads come only now; those under way end."""
        self._by_step.clear()
        self._outages.clear()

    def stop(self, label: str, part: Part) -> How | None:
        thread = self._give_way(label)
        if part in self._outages and self.ground.clock.now() < self._outages[part]:
            return How.BEFORE
        how, thread.fails = thread.fails, None
        if how is not None:
            self.tell(f"{thread.name}: {label} fails {how} its effect")
        return how

    def passed(self, label: str) -> None:
        self._give_way(f"{BEHIND}{label}")

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            thread = self._running()
            lasting = timedelta(seconds=seconds * self.pace * self._random.uniform(0.8, 1.2))
            thread.wakes_at = self.ground.clock.now() + timedelta(milliseconds=lasting // timedelta(milliseconds=1) + 1)
            thread.at = "asleep"
            self._hub.switch()

    def rest(self) -> None:
        """Until somebody wakes the thread."""
        self._running().wakes_at = self.ground.clock.now() + FOR_EVER
        self._hub.switch()

    def wake(self, name: str) -> None:
        for thread in self._threads:
            if thread.name == name:
                thread.wakes_at = self.ground.clock.now()

    def running(self) -> str:
        return self._running().name

    def tell(self, text: str) -> None:
        self.story.append((self.step, self.ground.clock.now(), text))

    def close(self) -> None:
        for process in self._processes.values():
            self._end(process)

    def _one(self) -> None:
        self.step += 1
        for happening in self._by_step.pop(self.step, ()):
            self._happens(happening)
        if self._doomed:
            self._bury()
        thread = self._next()
        self._current = thread
        thread.greenlet.switch()
        self._current = None
        if self._doomed:
            self._bury()
        self.ground.clock.advance(self._random.choice(TICKS))

    def _next(self) -> Thread:
        ready: list[Thread] = []
        while not ready:
            now = self.ground.clock.now()
            for process in self._processes.values():
                if process.back_at is not None and process.back_at <= now:
                    self._start(process)
            ready = [thread for thread in self._threads if thread.wakes_at <= now]
            if not ready:
                wakes = [thread.wakes_at for thread in self._threads]
                wakes += [process.back_at for process in self._processes.values() if process.back_at]
                self.ground.clock.advance(min(wakes) - now)
        return self._random.choice(ready)

    def _running(self) -> Thread:
        assert self._current is not None, "only a thread of the simulation may call this"
        return self._current

    def _give_way(self, label: str) -> Thread:
        thread = self._running()
        if thread.process.dead:
            raise Ended
        thread.at = label
        passed = self.points[thread.name]
        passed.append(label)
        for happening in self._by_point.pop((thread.name, len(passed)), ()) if self._by_point else ():
            self._happens(happening)
        self._hub.switch()
        return thread

    def _happens(self, happening: Happening) -> None:
        match happening.what:
            case Tweeted() | TakenBack() | Changed() | Resized() | Opened() | Throttled() | Judged():
                self.tell(f"{happening.what}")
                self._inputs(happening.what)
            case fault:
                self._fails(fault)

    def _fails(self, fault: Fault) -> None:
        now = self.ground.clock.now()
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
                self.ground.wipe()
            case Meddled(pool=pool, how=how):
                self._meddle(Pool(pool), how)
            case Frozen(lasting=lasting):
                self.tell(f"the machine sleeps for {lasting}")
                self.ground.clock.advance(lasting)
            case never:
                assert_never(never)

    def _kill(self, name: str, back_at: datetime) -> None:
        if name in self._processes:
            self._processes[name].doomed = self._doomed = True
            self._processes[name].back_at = back_at

    def _stall(self, name: str, lasting: timedelta) -> None:
        for thread in self._threads:
            if name in (thread.name, thread.process.name):
                self.tell(f"{thread.name} sleeps for {lasting}, at {thread.at}")
                thread.wakes_at = max(thread.wakes_at, self.ground.clock.now() + lasting)

    def _lose(self, name: str) -> None:
        """Asleep for ever, so that whoever runs may be the one; the next life of its process has none."""
        self.tell(f"{name} is lost")
        self.lost.add(name)
        self._stall(name, FOR_EVER)

    def _let_fail(self, name: str, how: How) -> None:
        for thread in self._threads:
            if thread.name == name:
                thread.fails = how

    def _meddle(self, pool: Pool, how: Meddling) -> None:
        waiting = self.ground.queue.waiting[pool]
        self.tell(f"the queue {pool} with {len(waiting)} tasks: {how}")
        match how:
            case Meddling.LOSE:
                del waiting[: 1 + len(waiting) // 2]
            case Meddling.DOUBLE:
                waiting.extend(list(waiting))
            case Meddling.SHUFFLE:
                self._random.shuffle(waiting)

    def _start(self, process: Process) -> None:
        process.lives += 1
        process.back_at = None
        if process.lives > 1:
            self.tell(f"{process.name} starts again")
        now = self.ground.clock.now()
        process.threads = [
            Thread(name=name, process=process, greenlet=greenlet(run, self._hub), wakes_at=now)
            for name, run in process.starts(process, process.lives).items()
            if name not in self.lost
        ]
        self._line_up()

    def _line_up(self) -> None:
        self._threads = [thread for process in self._processes.values() for thread in process.threads]

    def _bury(self) -> None:
        self._doomed = False
        for process in self._processes.values():
            if process.doomed:
                where = ", ".join(f"{t.name} at {t.at}" for t in process.threads if t.at != "asleep")
                self.tell(f"{process.name} is killed; {where}")
                self._end(process)

    def _end(self, process: Process) -> None:
        threads, process.threads, process.doomed = process.threads, [], False
        for thread in threads:
            self._current = thread
            with suppress(Ended):
                thread.greenlet.throw(Ended)
        self._current = None
        self._line_up()
