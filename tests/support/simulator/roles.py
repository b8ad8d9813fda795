"""The roles of the system as simulated processes, wired like the real ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Event as Signal
from typing import Any, cast

from notifier import topics
from notifier.api.request_threads import ThreadedLog
from notifier.config import Settings
from notifier.consumer_loop import Loop, StreamProcessor, build_stream_processor
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey
from notifier.flow.inbox.cache_invalidating_ports import versioned
from notifier.flow.inbox.inbox import AnswerObserver, Inbox
from notifier.flow.inbox.page_deadline_and_breaker import NoDeadline
from notifier.flow.inbox.preference_editor import PreferenceEditor
from notifier.flow.inbox.shared_loads import DirectLoads
from notifier.flow.intake.mention_router import Router
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.ports.event_log_and_dead_letters import Consumer, EventLog
from notifier.ports.pull_index import PullIndex
from notifier.wiring.delivery import build_dispatcher, build_load_monitor, build_reconciler, build_slice_worker
from notifier.wiring.inbox import build_inbox, build_versioned_preferences
from notifier.wiring.indexers_and_device_registry import build_activity_roll_up
from notifier.wiring.shared_parts import System, build_system
from tests.support.fakes.api_threads import InlineThreads
from tests.support.fakes.inbox_cache_freshness import MemoryViewerVersionReader, MemoryViewerVersionWriter
from tests.support.simulator.audience_snapshot_observer import ObservedAudienceSnapshots, ObservedSets, SnapshotObserver
from tests.support.simulator.durable_state import DurableState
from tests.support.simulator.inbox_visits import run_sync
from tests.support.simulator.port_proxy import proxied
from tests.support.simulator.push_observer import ObservedClaims, ObservedPhones, PushObserver
from tests.support.simulator.scheduler_and_faults import Process, Scheduler
from tests.support.simulator.script import Part, Script
from tests.support.simulator.user_changes import ChangeApi
from workers.slice_runner_and_pools import Runner

# Pull index of a process: bursts that Redis refused are remembered and sent first at the next call of any kind.


@dataclass(slots=True)
class PendingPullIndex:
    """Pending announcements live in the process's memory and are lost with it, as in the adapter."""

    index: PullIndex
    state: DurableState
    pending: dict[BurstKey, Burst] = field(default_factory=dict)

    def announce(self, bursts: Sequence[Burst]) -> None:
        self._announce_pending(bursts)

    def generation(self) -> str | None:
        self._announce_pending()
        return self.index.generation()

    def rebuild(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        announced: list[Burst] = []
        self.index.rebuild(_recording(pages, announced), since, as_of)
        self.state.unannounced.difference_update(burst.key for burst in announced)

    def record_comparison(self, since: datetime, as_of: datetime) -> None:
        self._announce_pending()
        self.index.record_comparison(since, as_of)

    def _announce_pending(self, bursts: Sequence[Burst] = ()) -> None:
        self.pending |= {burst.key: burst for burst in bursts}
        if not self.pending:
            return
        bursts_ = list(self.pending.values())
        try:
            self.index.announce(bursts_)
        except CacheUnavailable:
            self.state.unannounced.update(self.pending)
            raise
        self.state.unannounced.difference_update(burst.key for burst in bursts_)
        for burst in bursts_:
            if self.pending.get(burst.key) is burst:
                del self.pending[burst.key]


def _recording(pages: Iterable[Sequence[Burst]], announced: list[Burst]) -> Iterator[Sequence[Burst]]:
    for page in pages:
        announced += page
        yield page


POLLS_EVERY = timedelta(seconds=0.2)
DISPATCHES_EVERY = timedelta(seconds=0.3)
RECONCILES_EVERY = timedelta(seconds=1)
READS = {
    "router": topics.MENTIONS,
    "celebrity": topics.MENTIONS_CELEBRITY,
    "standard": topics.MENTIONS_STANDARD,
    "graph_indexer": topics.FOLLOWS,
    "retractor": topics.RETRACTIONS,
    "device_indexer": topics.DEVICES,
}
"""Loops that read the log, with the stream that each reads."""

Threads = dict[str, Callable[[], None]]


@dataclass(frozen=True, slots=True)
class StopSignal:
    """Stop signal of a loop whose `wait` sleeps in the scheduler."""

    scheduler: Scheduler

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        self.scheduler.sleep(seconds)


@dataclass(frozen=True, slots=True)
class ProxiedLog:
    """Log whose consumers are proxied too. Subscribing is no proxied call: it only names what will be polled."""

    log: EventLog
    scheduler: Scheduler

    def __getattr__(self, method: str) -> Any:
        return getattr(proxied(self.log, "log", Part.LOG, self.scheduler), method)

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        return proxied(self.log.subscribe(stream, group, owner), "consumer", Part.LOG, self.scheduler)


@dataclass(frozen=True, slots=True)
class Roles:
    state: DurableState
    scheduler: Scheduler
    settings: Settings
    push_observer: PushObserver
    snapshot_observer: SnapshotObserver
    script: Script
    metrics: Metrics = field(default_factory=Metrics)

    def system(self, process: Process) -> System:
        owner = f"{process.name}.{process.start_count}"
        return build_system(ports=self._ports(owner), settings=self.settings, metrics=self.metrics, owner=owner)

    def reads(self) -> ReadPorts:
        state = self.state
        return ReadPorts(
            people=proxied(state.people, "people", Part.STORE, self.scheduler),
            preferences=proxied(state.preferences, "preferences", Part.STORE, self.scheduler),
            timeline=proxied(state.timeline, "timeline", Part.STORE, self.scheduler),
            burst_changes=proxied(state.burst_changes, "burst_changes", Part.STORE, self.scheduler),
            pull=proxied(state.pull, "pull", Part.CACHE, self.scheduler),
            activity=state.activity,
            live=state.bus,
            versions=proxied(MemoryViewerVersionReader(state.versions), "inbox_versions", Part.CACHE, self.scheduler),
            clock=state.clock,
            nonces=state.nonces,
        )

    def inbox(self, observer: AnswerObserver | None) -> Inbox:
        """Return the inbox of one API process, with caches small enough to evict."""
        return build_inbox(
            self.reads(),
            metrics=self.metrics,
            new_shared_loads=DirectLoads,
            deadline=NoDeadline(),
            cache_megabytes=1,
            observers=() if observer is None else [observer],
        )

    def pump(self, process: Process, _: int) -> Threads:
        system, name = self.system(process), process.name
        script = self.script
        optional_streams = {
            topics.FOLLOWS: script.graph,
            topics.RETRACTIONS: script.has_retractions,
            topics.DEVICES: script.devices,
        }
        threads = {
            f"{name}/{loop}": self._loop(loop, self._pump(system, stream).step, POLLS_EVERY)
            for loop, stream in READS.items()
            if optional_streams.get(stream, True)
        }
        monitor = build_load_monitor(system)
        threads[f"{name}/dispatcher"] = self._loop("dispatcher", build_dispatcher(system), DISPATCHES_EVERY)
        threads[f"{name}/reconciler"] = self._loop("reconciler", build_reconciler(system), RECONCILES_EVERY)
        threads[f"{name}/monitor"] = self._loop("monitor", lambda: monitor() and None, self.settings.monitor_every)
        if every := self.settings.roll_up_every:
            threads[f"{name}/rollup"] = self._loop("rollup", build_activity_roll_up(system).run, every)
        return threads

    def change_api(self, process: Process) -> ChangeApi:
        """Return the entry points of the API's process for changes."""
        system, reads = self.system(process), self.reads()
        log = ThreadedLog(log=system.ports.log, threads=InlineThreads())
        editor = PreferenceEditor(
            people=reads.people, preferences=build_versioned_preferences(reads), clock=reads.clock, log=log
        )
        return ChangeApi(
            system=system,
            patch_subject=lambda *arguments: run_sync(editor.change(*arguments)),
            patch_account=lambda *arguments: run_sync(editor.change_account_preferences(*arguments)),
        )

    def _pump(self, system: System, stream: str) -> StreamProcessor:
        pump_ = build_stream_processor(system, stream)
        if self.script.resizes and isinstance(
            pump_.stage, Router
        ):  # sizes change within minutes in production, and many times in one run here
            pump_.stage = replace(pump_.stage, follower_counts=replace(pump_.stage.follower_counts, ttl=timedelta(0)))
        return pump_

    def _phones(self, owner: str) -> ObservedPhones:
        line = proxied(self.state.phones, "phones", Part.PROVIDER, self.scheduler)
        return ObservedPhones(line, self.state.phones, self.push_observer, owner)

    def worker(self, *pools: Pool) -> Callable[[Process, int], Threads]:
        """Return a worker that serves several pools in turn: a process for each would only add threads to order."""

        def starts(process: Process, _: int) -> Threads:
            runner = Runner(build_slice_worker(self.system(process)))
            queue = proxied(self.state.queue, "queue", Part.QUEUE, self.scheduler)

            def step() -> bool:
                slices = [slice_ for pool in pools if (slice_ := queue.take(pool)) is not None]
                for slice_ in slices:
                    runner(str(slice_))
                return bool(slices)

            return {process.name: self._loop(process.name, step, POLLS_EVERY)}

        return starts

    def _loop(self, name: str, step: Callable[[], object], idle: timedelta) -> Callable[[], None]:
        stop_signal = cast(Signal, StopSignal(self.scheduler))
        return Loop(name=name, step=step, idle=idle, stop_signal=stop_signal, metrics=self.metrics).run

    def _ports(self, owner: str) -> Ports:
        state, gate = self.state, self.scheduler

        def store(name: str) -> Any:
            return proxied(getattr(state, name), name, Part.STORE, gate)

        def cache(name: str) -> Any:
            return proxied(getattr(state, name), name, Part.CACHE, gate)

        ports = Ports(
            log=cast(EventLog, ProxiedLog(state.log, gate)),
            directory=store("directory"),
            sets=proxied(ObservedSets(state.sets, self.snapshot_observer, owner), "sets", Part.STORE, gate),
            heads=store("heads"),
            bursts=store("bursts"),
            recent_bursts=proxied(state.bursts, "recent_bursts", Part.STORE, gate),
            viewer_lapses=store("viewer_lapses"),
            versions=proxied(MemoryViewerVersionWriter(state.versions), "viewer_versions", Part.CACHE, gate),
            retractions=store("retractions"),
            ledger=store("ledger"),
            deferred_bursts=store("deferred_bursts"),
            claims=ObservedClaims(store("claims"), self.push_observer),
            audience_snapshots=proxied(
                ObservedAudienceSnapshots(state.audience_snapshots, self.snapshot_observer, owner),
                "audience_snapshots",
                Part.STORE,
                gate,
            ),
            inbox=store("inbox"),
            follows=store("follows"),
            account_flags=store("account_flags"),
            devices=store("devices"),
            subject_preferences=store("subject_preferences"),
            account_preferences=store("account_preferences"),
            user_blocks=store("user_blocks"),
            active_sets=store("active_sets"),
            epochs=store("epochs"),
            author_verdicts=store("author_verdicts"),
            held_mentions=store("held_mentions"),
            erasure_targets=store("erasure_targets"),
            throttles=store("throttles"),
            dead_letters=store("dead_letters"),
            lane_tallies=state.lane_tallies,  # nothing dies in the simulation, so no tally ever changes
            send_log=store("send_log"),
            push_suppressions=store("push_suppressions"),
            leases=store("leases"),
            store_scan=state.store_scan,
            pull=PendingPullIndex(cache("pull"), state),
            recent_events=cache("recent_events"),
            token_buckets=cache("token_buckets"),
            backpressure=cache("backpressure"),
            backlog_report=cache("backlog_report"),
            active_hours=cache("active_hours"),
            provider_rates=cache("provider_rates"),
            caps=cache("caps"),
            inbox_latency=cache("inbox_latency"),
            circuit_report=state.circuit_report,  # no decision depends on it
            bus=cache("bus"),
            queue=proxied(state.queue, "queue", Part.QUEUE, gate),
            providers=dict.fromkeys(self.script.platforms, self._phones(owner)),
            platforms=self.script.platforms,
            clock=state.clock,
            nonces=state.nonces,
            random=lambda: 0.5,
        )
        return versioned(ports)
