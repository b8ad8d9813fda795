"""Shared parts of one process, and builders of parts that several stages need."""

from dataclasses import dataclass
from datetime import timedelta

from notifier.config import Settings
from notifier.domain.audience.tiers_and_member_sets import TierRule
from notifier.flow.dead_letter_lane_stops import LaneGuards
from notifier.flow.indexing.custom_tier_rule import load_tier_rule
from notifier.flow.leadership import Leadership
from notifier.flow.sequencing.live_publisher import LivePublisher
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Ports, settings and shared parts of one process, from which the functions of this package build stages."""

    ports: Ports
    settings: Settings
    metrics: Metrics
    owner: str
    """Unique name of this process."""
    tier_rule: TierRule
    live_publisher: LivePublisher
    """Shared by all publishers and retractors of the process. It buffers updates during an outage of the live bus."""


def build_system(*, ports: Ports, settings: Settings, metrics: Metrics, owner: str) -> System:
    """Build the shared parts. Raises BadSetting for an invalid tier rule."""
    return System(
        ports=ports,
        settings=settings,
        metrics=metrics,
        owner=owner,
        tier_rule=load_tier_rule(settings.tier_rule),
        live_publisher=LivePublisher(bus=ports.bus),
    )


def build_lane_guards(system: System) -> LaneGuards:
    return LaneGuards(
        limit=system.settings.dead_letters.limit,
        tallies=system.ports.lane_tallies,
        clock=system.ports.clock,
        metrics=system.metrics,
        owner=system.owner,
    )


def build_leadership(system: System, name: str, term: timedelta) -> Leadership:
    return Leadership(leases=system.ports.leases, name=name, owner=system.owner, term=term)
