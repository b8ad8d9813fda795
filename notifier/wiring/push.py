"""Builders of push: the slice handler for alerts, its sender and the rate limiters."""

from collections.abc import Mapping

from notifier.domain.ids import Platform
from notifier.flow.push.alert_sender import AlertSender
from notifier.flow.push.circuit_breakers import CircuitBreakers
from notifier.flow.push.device_selection import Selection
from notifier.flow.push.frequency_caps import FrequencyCaps
from notifier.flow.push.late_alert_catch_up import CatchUp, SameSubjectBursts
from notifier.flow.push.pipeline import PushPipeline
from notifier.flow.push.rate_limiter import RateLimiter, Slowdown
from notifier.wiring.indexers_and_device_registry import build_device_registry
from notifier.wiring.shared_parts import System


def build_push_pipeline(system: System) -> PushPipeline:
    """Build the pipeline, which shares circuit breakers and rate limiters with its sender."""
    ports, settings = system.ports, system.settings
    breakers = CircuitBreakers(clock=ports.clock, circuit_report=ports.circuit_report, metrics=system.metrics)
    rate_limiters = build_rate_limiters(system)
    catch_up = CatchUp(
        siblings=SameSubjectBursts(bursts=ports.bursts),
        ledger=ports.ledger,
        audience_snapshots=ports.audience_snapshots,
        send_log=ports.send_log,
        push_suppressions=ports.push_suppressions,
    )
    return PushPipeline(
        bursts=ports.bursts,
        audience_snapshots=ports.audience_snapshots,
        push_suppressions=ports.push_suppressions,
        send_log=ports.send_log,
        catch_up=catch_up,
        selection=Selection(devices=ports.devices),
        caps=FrequencyCaps(store=ports.caps, metrics=system.metrics, limits=settings.push.caps),
        breakers=breakers,
        rate_limiters=rate_limiters,
        sender=build_alert_sender(system, breakers, rate_limiters),
        clock=ports.clock,
    )


def build_alert_sender(
    system: System, breakers: CircuitBreakers, rate_limiters: Mapping[Platform, RateLimiter]
) -> AlertSender:
    ports = system.ports
    return AlertSender(
        providers=ports.providers,
        breakers=breakers,
        rate_limiters=rate_limiters,
        device_registry=build_device_registry(system),
        clock=ports.clock,
        random=ports.random,
        metrics=system.metrics,
    )


def build_rate_limiters(system: System) -> Mapping[Platform, RateLimiter]:
    """Build one rate limiter per provider. All slow down together while inboxes are slow or backpressure is set."""
    ports = system.ports
    slowdown = Slowdown(inbox_latency=ports.inbox_latency, backpressure=ports.backpressure, metrics=system.metrics)
    return {
        platform: RateLimiter(
            platform=platform,
            provider_rates=ports.provider_rates,
            slowdown=slowdown,
            metrics=system.metrics,
            limit=provider_limit,
        )
        for platform, provider_limit in system.settings.push.provider_limits.items()
    }
