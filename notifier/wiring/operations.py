"""Builders of operations: overview, preview and event status."""

from contextlib import AbstractContextManager

from notifier.flow.operations.event_status import EventStatusLookup
from notifier.flow.operations.overview import Overview
from notifier.flow.operations.preview import Preview
from notifier.wiring.intake import build_moderation
from notifier.wiring.shared_parts import System


def build_overview(system: System) -> Overview:
    """Build one overview per process, because its rates are computed from the previous read."""
    ports = system.ports
    return Overview(
        ledger=ports.ledger,
        deferred_bursts=ports.deferred_bursts,
        recent_bursts=ports.recent_bursts,
        audience_snapshots=ports.audience_snapshots,
        throttles=ports.throttles,
        lane_tallies=ports.lane_tallies,
        backlog_report=ports.backlog_report,
        backpressure=ports.backpressure,
        circuit_report=ports.circuit_report,
        pull=ports.pull,
        clock=ports.clock,
    )


def build_preview(system: System, count_lock: AbstractContextManager[object] | None = None) -> Preview:
    """Build the preview. `count_lock` limits concurrent counts of audiences; None means no limit."""
    ports, settings = system.ports, system.settings
    return Preview(
        moderation=build_moderation(system),
        sets=ports.sets,
        heads=ports.heads,
        retractions=ports.retractions,
        ledger=ports.ledger,
        recent_bursts=ports.recent_bursts,
        throttles=ports.throttles,
        clock=ports.clock,
        threshold=settings.threshold,
        collapse_window=settings.collapse,
        budget_refill=settings.refill,
        rule=system.tier_rule,
        pushed_tiers=settings.push.pushed_tiers,
        count_lock=count_lock,
    )


def build_event_status(system: System, search_lock: AbstractContextManager[object] | None = None) -> EventStatusLookup:
    """Build the look-up. `search_lock` limits concurrent log scans; None means no limit."""
    ports = system.ports
    return EventStatusLookup(
        bursts=ports.bursts,
        held_mentions=ports.held_mentions,
        ledger=ports.ledger,
        throttles=ports.throttles,
        recent_events=ports.recent_events,
        log=ports.log,
        clock=ports.clock,
        search_lock=search_lock,
    )
