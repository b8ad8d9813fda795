"""The roles of the system as processes of the simulation, wired as the real ones are: stages, pumps, loops, runners."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Event as Signal
from typing import Any, cast

from notifier import topics
from notifier.api.threads import ThreadedLog
from notifier.config import Settings
from notifier.consumer_loop import Loop, Pump, pump
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey
from notifier.flow.inbox.inbox import Inbox, OpeningObserver
from notifier.flow.inbox.preferences import PreferenceEditor
from notifier.flow.inbox.shared_loads import DirectLoads
from notifier.flow.inbox.store_breaker import NoDeadline
from notifier.flow.inbox.versioned_ports import versioned
from notifier.flow.intake.router import Router
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.ports.event_log import Consumer, EventLog
from notifier.ports.pull_index import PullIndex
from notifier.wiring.delivery import build_dispatcher, build_load_monitor, build_reconciler, build_slice_worker
from notifier.wiring.inbox import build_inbox, build_versioned_preferences
from notifier.wiring.indexing import build_activity_roll_up
from notifier.wiring.system import System, build_system
from tests.support.fakes.inbox_versions import MemoryInboxVersions, MemoryViewerVersions
from tests.support.fakes.threads import InlineThreads
from tests.support.simulator.durable_state import Ground
from tests.support.simulator.inbox_visits import driven
from tests.support.simulator.port_proxy import tapped
from tests.support.simulator.preference_changes import Mouth
from tests.support.simulator.push_observer import OwnClaims, OwnPhones, Ringing
from tests.support.simulator.scheduler import Process, Scheduler
from tests.support.simulator.script import Part, Script
from tests.support.simulator.seal_observer import OwnSeals, OwnSets, Watching
from workers.runner import Runner

# The pull index as a process has it: what Redis refused is remembered and said first at the next call of any kind.


@dataclass(slots=True)
class OwingPull:
    """In a process's memory: the debt is lost with it, as the adapter's is."""

    index: PullIndex
    ground: Ground
    owed: dict[BurstKey, Burst] = field(default_factory=dict)

    def announce(self, bursts: Sequence[Burst]) -> None:
        self._pay(bursts)

    def generation(self) -> str | None:
        self._pay()
        return self.index.generation()

    def rebuilt(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        given: list[Burst] = []
        self.index.rebuilt(_noted(pages, given), since, as_of)
        self.ground.unannounced.difference_update(burst.key for burst in given)

    def compared(self, since: datetime, as_of: datetime) -> None:
        self._pay()
        self.index.compared(since, as_of)

    def _pay(self, bursts: Sequence[Burst] = ()) -> None:
        self.owed |= {burst.key: burst for burst in bursts}
        if not self.owed:
            return
        given = list(self.owed.values())
        try:
            self.index.announce(given)
        except CacheUnavailable:
            self.ground.unannounced.update(self.owed)
            raise
        self.ground.unannounced.difference_update(burst.key for burst in given)
        for burst in given:
            if self.owed.get(burst.key) is burst:
                del self.owed[burst.key]


def _noted(pages: Iterable[Sequence[Burst]], given: list[Burst]) -> Iterator[Sequence[Burst]]:
    for page in pages:
        given += page
        yield page


POLLS_EVERY = timedelta(seconds=0.2)
DISPATCHES_EVERY = timedelta(seconds=0.3)
RECONCILES_EVERY = timedelta(seconds=1)
READS = {
    "router": topics.MENTIONS,
    "celebrity": topics.MENTIONS_CELEBRITY,
    "standard": topics.MENTIONS_STANDARD,
    "indexer": topics.FOLLOWS,
    "retractor": topics.RETRACTIONS,
    "switchboard": topics.DEVICES,
}
"""The loops that read the log, and what each reads."""

Threads = dict[str, Callable[[], None]]


@dataclass(frozen=True, slots=True)
class Sleeper:
    """What a loop waits on, in the scheduler's hands."""

    scheduler: Scheduler

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        self.scheduler.sleep(seconds)


@dataclass(frozen=True, slots=True)
class TappedLog:
    """Its consumers are tapped too; joining a group is no call, because it only says what will be polled."""

    log: EventLog
    scheduler: Scheduler

    def __getattr__(self, method: str) -> Any:
        return getattr(tapped(self.log, "log", Part.LOG, self.scheduler), method)

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        return tapped(self.log.subscribe(stream, group, owner), "consumer", Part.LOG, self.scheduler)


@dataclass(frozen=True, slots=True)
class Roles:
    ground: Ground
    scheduler: Scheduler
    settings: Settings
    ringing: Ringing
    watching: Watching
    script: Script
    metrics: Metrics = field(default_factory=Metrics)

    def system(self, process: Process) -> System:
        owner = f"{process.name}.{process.lives}"
        return build_system(ports=self._ports(owner), settings=self.settings, metrics=self.metrics, owner=owner)

    def reads(self) -> ReadPorts:
        g = self.ground
        return ReadPorts(
            people=tapped(g.people, "people", Part.STORE, self.scheduler),
            preferences=tapped(g.preferences, "preferences", Part.STORE, self.scheduler),
            timeline=tapped(g.timeline, "timeline", Part.STORE, self.scheduler),
            burst_changes=tapped(g.burst_changes, "burst_changes", Part.STORE, self.scheduler),
            pull=tapped(g.pull, "pull", Part.CACHE, self.scheduler),
            activity=g.activity,
            live=g.bus,
            versions=tapped(MemoryInboxVersions(g.versions), "inbox_versions", Part.CACHE, self.scheduler),
            clock=g.clock,
            nonces=g.nonces,
        )

    def inbox(self, observer: OpeningObserver | None) -> Inbox:
        """Of one API process, with small caches, so that they evict."""
        return build_inbox(
            self.reads(),
            metrics=self.metrics,
            loads=DirectLoads,
            deadline=NoDeadline(),
            megabytes=1,
            observers=() if observer is None else [observer],
        )

    def pump(self, process: Process, _: int) -> Threads:
        system, name = self.system(process), process.name
        script = self.script
        some = {topics.FOLLOWS: script.graph, topics.RETRACTIONS: script.takes_back, topics.DEVICES: script.devices}
        threads = {
            f"{name}/{loop}": self._loop(loop, self._pump(system, stream).step, POLLS_EVERY)
            for loop, stream in READS.items()
            if some.get(stream, True)
        }
        monitor = build_load_monitor(system)
        threads[f"{name}/dispatcher"] = self._loop("dispatcher", build_dispatcher(system), DISPATCHES_EVERY)
        threads[f"{name}/reconciler"] = self._loop("reconciler", build_reconciler(system), RECONCILES_EVERY)
        threads[f"{name}/monitor"] = self._loop("monitor", lambda: monitor() and None, self.settings.monitor_every)
        if every := self.settings.roll_up_every:
            threads[f"{name}/rollup"] = self._loop("rollup", build_activity_roll_up(system).run, every)
        return threads

    def mouth(self, process: Process) -> Mouth:
        """By which the API's process hears people and the graph service."""
        system, reads = self.system(process), self.reads()
        log = ThreadedLog(log=system.ports.log, threads=InlineThreads())
        asking = PreferenceEditor(
            people=reads.people, preferences=build_versioned_preferences(reads), clock=reads.clock, log=log
        )
        return Mouth(
            system=system,
            asks=lambda *wish: driven(asking.change(*wish)),
            arranges=lambda *wish: driven(asking.arrange(*wish)),
        )

    def _pump(self, system: System, stream: str) -> Pump:
        made = pump(system, stream)
        if self.script.resizes and isinstance(
            made.stage, Router
        ):  # what takes minutes else happens many times in a course
            made.stage = replace(made.stage, sizes=replace(made.stage.sizes, kept_for=timedelta(0)))
        return made

    def _phones(self, owner: str) -> OwnPhones:
        line = tapped(self.ground.phones, "phones", Part.PROVIDER, self.scheduler)
        return OwnPhones(line, self.ground.phones, self.ringing, owner)

    def worker(self, *pools: Pool) -> Callable[[Process, int], Threads]:
        """Of several pools one after the other: in a process of its own each would only be more to order."""

        def starts(process: Process, _: int) -> Threads:
            runner = Runner(build_slice_worker(self.system(process)))
            queue = tapped(self.ground.queue, "queue", Part.QUEUE, self.scheduler)

            def step() -> bool:
                taken = [piece for pool in pools if (piece := queue.take(pool)) is not None]
                for piece in taken:
                    runner(str(piece))
                return bool(taken)

            return {process.name: self._loop(process.name, step, POLLS_EVERY)}

        return starts

    def _loop(self, name: str, step: Callable[[], object], idle: timedelta) -> Callable[[], None]:
        sleeper = cast(Signal, Sleeper(self.scheduler))
        return Loop(name=name, step=step, idle=idle, stopping=sleeper, metrics=self.metrics).run

    def _ports(self, owner: str) -> Ports:
        g, gate = self.ground, self.scheduler

        def store(name: str) -> Any:
            return tapped(getattr(g, name), name, Part.STORE, gate)

        def cache(name: str) -> Any:
            return tapped(getattr(g, name), name, Part.CACHE, gate)

        ports = Ports(
            log=cast(EventLog, TappedLog(g.log, gate)),
            directory=store("directory"),
            sets=tapped(OwnSets(g.sets, self.watching, owner), "sets", Part.STORE, gate),
            heads=store("heads"),
            bursts=store("bursts"),
            recent_bursts=tapped(g.bursts, "recent_bursts", Part.STORE, gate),
            viewer_lapses=store("viewer_lapses"),
            versions=tapped(MemoryViewerVersions(g.versions), "viewer_versions", Part.CACHE, gate),
            retractions=store("retractions"),
            ledger=store("ledger"),
            sleepers=store("sleepers"),
            claims=OwnClaims(store("claims"), self.ringing),
            seals=tapped(OwnSeals(g.seals, self.watching, owner), "seals", Part.STORE, gate),
            inbox=store("inbox"),
            follows=store("follows"),
            flags=store("flags"),
            devices=store("devices"),
            wants=store("wants"),
            overalls=store("overalls"),
            partings=store("partings"),
            stays=store("stays"),
            epochs=store("epochs"),
            reaches=store("reaches"),
            holds=store("holds"),
            traces=store("traces"),
            throttles=store("throttles"),
            dead_letters=store("dead_letters"),
            lane_tallies=g.lane_tallies,  # nothing dies in the simulation, so no tally ever changes
            sent=store("sent"),
            spared=store("spared"),
            leases=store("leases"),
            archive=g.archive,
            pull=OwingPull(cache("pull"), g),
            recent=cache("recent"),
            buckets=cache("buckets"),
            pressure=cache("pressure"),
            report=cache("report"),
            active_hours=cache("active_hours"),
            paces=cache("paces"),
            caps=cache("caps"),
            tabs=cache("tabs"),
            lines=g.lines,  # nobody decides by it
            bus=cache("bus"),
            queue=tapped(g.queue, "queue", Part.QUEUE, gate),
            providers=dict.fromkeys(self.script.platforms, self._phones(owner)),
            platforms=self.script.platforms,
            clock=g.clock,
            nonces=g.nonces,
            chance=lambda: 0.5,
        )
        return versioned(ports)
