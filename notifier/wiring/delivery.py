"""Builders of delivery: dispatcher, slice worker, row writer, reconciler and load monitor."""

from collections.abc import Callable
from datetime import timedelta

from notifier.domain.delivery.slice import PHONES, Step
from notifier.flow.delivery.dispatcher import Dispatcher
from notifier.flow.delivery.reconciler import Reconciler
from notifier.flow.delivery.row_writer import Delivery
from notifier.flow.delivery.slice_worker import Work
from notifier.flow.delivery.throttling import Monitor, Rates
from notifier.flow.indexing.bitmaps import MendedSets
from notifier.wiring.push import build_push_pipeline
from notifier.wiring.sequencing import build_publisher
from notifier.wiring.system import System, build_lane_guards, build_leadership

DISPATCHER_TERM = timedelta(seconds=5)
RECONCILER_TERM = timedelta(seconds=10)


def build_dispatcher(system: System) -> Dispatcher:
    """Build the dispatcher, which plans open bursts and queues their slices."""
    ports = system.ports
    return Dispatcher(
        ledger=ports.ledger,
        sleepers=ports.sleepers,
        queue=ports.queue,
        rates=Rates(throttles=ports.throttles, pressure=ports.pressure, lane_tallies=ports.lane_tallies),
        leadership=build_leadership(system, "dispatcher", DISPATCHER_TERM),
        report=ports.report,
        clock=ports.clock,
        metrics=system.metrics,
    )


def build_slice_worker(
    system: System, alive: Callable[[], None] | None = None, stopping: Callable[[], bool] | None = None
) -> Work:
    """Build the worker that runs slices of rows and of alerts.

    It calls `alive` while a slice makes progress, and hands the slice back once `stopping` returns True.
    """
    ports = system.ports
    return Work(
        doings={Step.ROWS: build_row_writer(system), **dict.fromkeys(PHONES, build_push_pipeline(system))},
        bursts=ports.bursts,
        claims=ports.claims,
        ledger=ports.ledger,
        dead_letters=ports.dead_letters,
        guards=build_lane_guards(system),
        clock=ports.clock,
        metrics=system.metrics,
        owner=system.owner,
        alive=alive,
        stopping=stopping,
    )


def build_row_writer(system: System) -> Delivery:
    """Build the slice handler that writes inbox rows."""
    ports = system.ports
    return Delivery(
        sets=MendedSets(port=ports.sets, log=ports.log, clock=ports.clock),
        seals=ports.seals,
        inbox=ports.inbox,
        clock=ports.clock,
        metrics=system.metrics,
        rule=system.tier_rule,
        pushed=system.settings.push.pushed,
    )


def build_reconciler(system: System) -> Reconciler:
    """Build the periodic job that finishes what a crash left half done."""
    ports = system.ports
    return Reconciler(
        publisher=build_publisher(system),
        heads=ports.heads,
        recent=ports.recent_bursts,
        pull=ports.pull,
        ledger=ports.ledger,
        seals=ports.seals,
        inbox=ports.inbox,
        holds=ports.holds,
        log=ports.log,
        leadership=build_leadership(system, "reconciler", RECONCILER_TERM),
        clock=ports.clock,
        metrics=system.metrics,
    )


def build_load_monitor(system: System) -> Monitor:
    """Build the periodic job that turns queue lengths into backpressure."""
    ports = system.ports
    return Monitor(
        leases=ports.leases,
        queue=ports.queue,
        report=ports.report,
        pressure=ports.pressure,
        lines=ports.lines,
        clock=ports.clock,
        metrics=system.metrics,
        owner=system.owner,
        every=system.settings.monitor_every,
    )
