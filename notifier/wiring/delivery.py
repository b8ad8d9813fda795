"""Builders of delivery: dispatcher, slice worker, row writer, reconciler and load monitor."""

from collections.abc import Callable
from datetime import timedelta

from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Step
from notifier.flow.delivery.dispatcher import Dispatcher, PoolRates
from notifier.flow.delivery.load_monitor import LoadMonitor
from notifier.flow.delivery.publishing_and_index_reconciler import Reconciler
from notifier.flow.delivery.slice_worker import SliceWorker
from notifier.flow.delivery.snapshot_and_row_writer import RowWriter
from notifier.flow.indexing.bitmap_updates_and_repair import SelfRepairingSets
from notifier.wiring.push import build_push_pipeline
from notifier.wiring.sequencing import build_publisher
from notifier.wiring.shared_parts import System, build_lane_guards, build_leadership

DISPATCHER_TERM, RECONCILER_TERM = timedelta(seconds=5), timedelta(seconds=10)
"""Durations of the leader leases."""


def build_dispatcher(system: System) -> Dispatcher:
    ports = system.ports
    return Dispatcher(
        ledger=ports.ledger,
        deferred_bursts=ports.deferred_bursts,
        queue=ports.queue,
        rates=PoolRates(throttles=ports.throttles, backpressure=ports.backpressure, lane_tallies=ports.lane_tallies),
        leadership=build_leadership(system, "dispatcher", DISPATCHER_TERM),
        backlog_report=ports.backlog_report,
        clock=ports.clock,
        metrics=system.metrics,
    )


def build_slice_worker(
    system: System, on_progress: Callable[[], None] | None = None, is_stopping: Callable[[], bool] | None = None
) -> SliceWorker:
    """Build the worker, which calls `on_progress` while a slice makes progress.

    Once `is_stopping` returns True, the worker hands its slice back.
    """
    ports = system.ports
    return SliceWorker(
        handlers={Step.ROWS: build_row_writer(system), **dict.fromkeys(PUSH_STEPS, build_push_pipeline(system))},
        bursts=ports.bursts,
        claims=ports.claims,
        ledger=ports.ledger,
        dead_letters=ports.dead_letters,
        guards=build_lane_guards(system),
        clock=ports.clock,
        metrics=system.metrics,
        owner=system.owner,
        on_progress=on_progress,
        is_stopping=is_stopping,
    )


def build_row_writer(system: System) -> RowWriter:
    ports = system.ports
    return RowWriter(
        sets=SelfRepairingSets(sets=ports.sets, log=ports.log, clock=ports.clock),
        audience_snapshots=ports.audience_snapshots,
        inbox=ports.inbox,
        clock=ports.clock,
        metrics=system.metrics,
        rule=system.tier_rule,
        pushed_tiers=system.settings.push.pushed_tiers,
    )


def build_reconciler(system: System) -> Reconciler:
    ports = system.ports
    return Reconciler(
        publisher=build_publisher(system),
        heads=ports.heads,
        recent_bursts=ports.recent_bursts,
        pull=ports.pull,
        ledger=ports.ledger,
        audience_snapshots=ports.audience_snapshots,
        inbox=ports.inbox,
        held_mentions=ports.held_mentions,
        log=ports.log,
        leadership=build_leadership(system, "reconciler", RECONCILER_TERM),
        clock=ports.clock,
        metrics=system.metrics,
    )


def build_load_monitor(system: System) -> LoadMonitor:
    ports = system.ports
    return LoadMonitor(
        leases=ports.leases,
        queue=ports.queue,
        backlog_report=ports.backlog_report,
        backpressure=ports.backpressure,
        circuit_report=ports.circuit_report,
        clock=ports.clock,
        metrics=system.metrics,
        owner=system.owner,
        interval=system.settings.monitor_every,
    )
