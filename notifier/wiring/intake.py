"""Builders of intake: gateway, router and the moderation look-up."""

from notifier.flow.intake.gateway import Gateway
from notifier.flow.intake.mention_permission_and_reach import ModerationLookup
from notifier.flow.intake.mention_router import FollowerCountCache, Router
from notifier.wiring.sequencing import build_erasure, build_retraction_settlement
from notifier.wiring.shared_parts import System


def build_gateway(system: System) -> Gateway:
    ports = system.ports
    return Gateway(
        log=ports.log,
        recent_events=ports.recent_events,
        settlement=build_retraction_settlement(system),
        metrics=system.metrics,
    )


def build_router(system: System) -> Router:
    ports = system.ports
    follower_counts = FollowerCountCache(
        sets=ports.sets, heads=ports.heads, clock=ports.clock, threshold=system.settings.threshold
    )
    return Router(
        log=ports.log,
        moderation=build_moderation(system),
        held_mentions=ports.held_mentions,
        erasure=build_erasure(system),
        bursts=ports.bursts,
        token_buckets=ports.token_buckets,
        follower_counts=follower_counts,
        metrics=system.metrics,
        author_cap=system.settings.reach.author_limit,
    )


def build_moderation(system: System) -> ModerationLookup:
    ports = system.ports
    return ModerationLookup(
        directory=ports.directory,
        author_verdicts=ports.author_verdicts,
        account_preferences=ports.account_preferences,
        follows=ports.follows,
        held_mentions=ports.held_mentions,
    )
