"""Builders of intake: gateway, router and the moderation check."""

from notifier.flow.intake.gateway import Gateway
from notifier.flow.intake.moderation import Reaching
from notifier.flow.intake.router import Router, Sizes
from notifier.wiring.sequencing import build_erasure, build_retraction_settlement
from notifier.wiring.system import System


def build_gateway(system: System) -> Gateway:
    """Build the gateway. It applies small retractions itself; the retractor does the rest from the log."""
    ports = system.ports
    return Gateway(
        log=ports.log,
        recent=ports.recent,
        settlement=build_retraction_settlement(system),
        metrics=system.metrics,
    )


def build_router(system: System) -> Router:
    """Build the router, which splits each event into one mention per account."""
    ports = system.ports
    sizes = Sizes(sets=ports.sets, heads=ports.heads, clock=ports.clock, threshold=system.settings.threshold)
    return Router(
        log=ports.log,
        reaching=build_moderation(system),
        holds=ports.holds,
        erasing=build_erasure(system),
        bursts=ports.bursts,
        buckets=ports.buckets,
        sizes=sizes,
        metrics=system.metrics,
        cap=system.settings.reach.cap,
    )


def build_moderation(system: System) -> Reaching:
    """Build the check whether an author may notify the accounts that an event mentions."""
    ports = system.ports
    return Reaching(
        directory=ports.directory,
        reaches=ports.reaches,
        overalls=ports.overalls,
        follows=ports.follows,
        holds=ports.holds,
    )
