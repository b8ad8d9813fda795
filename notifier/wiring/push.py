"""Builders of push: the slice handler for alerts, its sender and the rate limiters."""

from collections.abc import Mapping

from notifier.domain.ids import Platform
from notifier.flow.push.catch_up import CatchUp, SiblingBursts
from notifier.flow.push.circuit_breakers import CircuitBreakers
from notifier.flow.push.frequency_caps import FrequencyCaps
from notifier.flow.push.pipeline import PushPipeline
from notifier.flow.push.rate_limiter import Easing, Pacing
from notifier.flow.push.selection import Selection
from notifier.flow.push.sender import AlertSender
from notifier.wiring.indexing import build_device_registry
from notifier.wiring.system import System


def build_push_pipeline(system: System) -> PushPipeline:
    """Build the slice handler that sends alerts. It shares breakers and rate limiters with its sender."""
    ports, settings = system.ports, system.settings
    breakers = CircuitBreakers(clock=ports.clock, report=ports.lines, metrics=system.metrics)
    pacing = build_rate_limiters(system)
    catch_up = CatchUp(
        siblings=SiblingBursts(bursts=ports.bursts),
        ledger=ports.ledger,
        seals=ports.seals,
        sent=ports.sent,
        spared=ports.spared,
    )
    return PushPipeline(
        bursts=ports.bursts,
        seals=ports.seals,
        spared=ports.spared,
        sent=ports.sent,
        catch_up=catch_up,
        selection=Selection(devices=ports.devices),
        caps=FrequencyCaps(caps=ports.caps, metrics=system.metrics, limits=settings.push.caps),
        breakers=breakers,
        pacing=pacing,
        sender=build_alert_sender(system, breakers, pacing),
        clock=ports.clock,
    )


def build_alert_sender(system: System, breakers: CircuitBreakers, pacing: Mapping[Platform, Pacing]) -> AlertSender:
    """Build the sender, which passes alerts to the push providers and returns their answers."""
    ports = system.ports
    return AlertSender(
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
