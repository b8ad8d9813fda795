"""Builders of push: the slice handler for alerts, its sender and the rate limiters."""

from collections.abc import Mapping

from notifier.domain.ids import Platform
from notifier.flow.push.batches import Calls
from notifier.flow.push.catch_up import Away, Neighbours
from notifier.flow.push.circuit_breakers import Breakers
from notifier.flow.push.frequency_caps import Capping
from notifier.flow.push.push_handler import Push
from notifier.flow.push.rate_limiter import Easing, Pacing
from notifier.flow.push.sender import Ringing
from notifier.wiring.indexing import build_device_registry
from notifier.wiring.system import System


def build_push_handler(system: System) -> Push:
    """Build the slice handler that sends alerts. It shares breakers and rate limiters with its sender."""
    ports, settings = system.ports, system.settings
    breakers = Breakers(clock=ports.clock, report=ports.lines, metrics=system.metrics)
    pacing = build_rate_limiters(system)
    catch_up = Away(
        neighbours=Neighbours(bursts=ports.bursts),
        ledger=ports.ledger,
        seals=ports.seals,
        sent=ports.sent,
        spared=ports.spared,
    )
    capping = Capping(caps=ports.caps, metrics=system.metrics, terms=settings.push.caps)
    return Push(
        bursts=ports.bursts,
        seals=ports.seals,
        spared=ports.spared,
        sent=ports.sent,
        away=catch_up,
        calls=Calls(devices=ports.devices, capping=capping),
        ringing=build_alert_sender(system, breakers, pacing),
        breakers=breakers,
        pacing=pacing,
        clock=ports.clock,
    )


def build_alert_sender(system: System, breakers: Breakers, pacing: Mapping[Platform, Pacing]) -> Ringing:
    """Build the sender, which passes alerts to the push providers and records the answers."""
    ports = system.ports
    return Ringing(
        sent=ports.sent,
        providers=ports.providers,
        breakers=breakers,
        pacing=pacing,
        book=build_device_registry(system),
        clock=ports.clock,
        chance=ports.chance,
        metrics=system.metrics,
    )


def build_rate_limiters(system: System) -> Mapping[Platform, Pacing]:
    """Build one rate limiter per push platform; all slow down together while inbox pages are slow."""
    ports = system.ports
    easing = Easing(tabs=ports.tabs, pressure=ports.pressure, metrics=system.metrics)
    return {
        platform: Pacing(platform=platform, paces=ports.paces, easing=easing, metrics=system.metrics, terms=terms)
        for platform, terms in system.settings.push.paces.items()
    }
