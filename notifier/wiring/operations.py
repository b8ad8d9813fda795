"""Builders of operations: overview, preview and event status."""

from contextlib import AbstractContextManager

from notifier.flow.operations.event_status import Fates
from notifier.flow.operations.overview import Overview
from notifier.flow.operations.preview import Preview
from notifier.wiring.intake import build_moderation
from notifier.wiring.system import System


def build_overview(system: System) -> Overview:
    """Build the overview. Build one per process: it remembers its last reading."""
    ports = system.ports
    return Overview(
        ledger=ports.ledger,
        sleepers=ports.sleepers,
        recent=ports.recent_bursts,
        seals=ports.seals,
        throttles=ports.throttles,
        lane_tallies=ports.lane_tallies,
        report=ports.report,
        pressure=ports.pressure,
        lines=ports.lines,
        pull=ports.pull,
        clock=ports.clock,
    )


def build_preview(system: System, turns: AbstractContextManager[object] | None = None) -> Preview:
    """Build the preview of an event's audience. `turns` limits concurrent counts; None means no limit."""
    ports, settings = system.ports, system.settings
    return Preview(
        reaching=build_moderation(system),
        sets=ports.sets,
        heads=ports.heads,
        retractions=ports.retractions,
        ledger=ports.ledger,
        recent=ports.recent_bursts,
        throttles=ports.throttles,
        clock=ports.clock,
        threshold=settings.threshold,
        collapse=settings.collapse,
        refill=settings.refill,
        rule=system.tier_rule,
        pushed=settings.push.pushed,
        turns=turns,
    )


def build_event_status(system: System, turns: AbstractContextManager[object] | None = None) -> Fates:
    """Build the lookup of an event's status. `turns` limits concurrent log scans; None means no limit."""
    ports = system.ports
    return Fates(
        bursts=ports.bursts,
        holds=ports.holds,
        ledger=ports.ledger,
        throttles=ports.throttles,
        recent=ports.recent,
        log=ports.log,
        clock=ports.clock,
        turns=turns,
    )
