"""Builders of sequencing: coordinator, publisher, retractions and erasure."""

from notifier.flow.sequencing.burst_publishing_and_planning import Publisher
from notifier.flow.sequencing.erasure import Erasure
from notifier.flow.sequencing.mention_coordinator import Coordinator
from notifier.flow.sequencing.retracted_burst_updates import RetractionSettlement
from notifier.flow.sequencing.retractor import Retractor
from notifier.wiring.indexers_and_device_registry import build_device_registry
from notifier.wiring.shared_parts import System


def build_coordinator(system: System) -> Coordinator:
    ports = system.ports
    return Coordinator(
        bursts=ports.bursts,
        settlement=build_retraction_settlement(system),
        publisher=build_publisher(system),
        clock=ports.clock,
        nonces=ports.nonces,
        collapse_window=system.settings.collapse,
        budget_refill=system.settings.refill,
    )


def build_publisher(system: System) -> Publisher:
    ports = system.ports
    return Publisher(
        heads=ports.heads,
        bursts=ports.bursts,
        sets=ports.sets,
        ledger=ports.ledger,
        pull=ports.pull,
        live_publisher=system.live_publisher,
        clock=ports.clock,
        nonces=ports.nonces,
        metrics=system.metrics,
        platforms=ports.platforms,
    )


def build_retraction_settlement(system: System) -> RetractionSettlement:
    ports = system.ports
    return RetractionSettlement(
        retractions=ports.retractions,
        bursts=ports.bursts,
        publisher=build_publisher(system),
        clock=ports.clock,
        nonces=ports.nonces,
    )


def build_retractor(system: System) -> Retractor:
    ports = system.ports
    return Retractor(
        settlement=build_retraction_settlement(system),
        erasure=build_erasure(system),
        bursts=ports.bursts,
        live_publisher=system.live_publisher,
    )


def build_erasure(system: System) -> Erasure:
    ports = system.ports
    return Erasure(
        retractions=ports.retractions,
        erasure_targets=ports.erasure_targets,
        directory=ports.directory,
        device_registry=build_device_registry(system),
        clock=ports.clock,
        metrics=system.metrics,
    )
