"""Audiences as set algebra over the bitmaps of one shard: who belongs to which tier, and who is left out by a rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from notifier.domain.bits import Bits, count, nobody


class Tier(StrEnum):
    P0 = "p0"
    P1 = "p1"
    P2 = "p2"
    DORMANT = "dormant"
    """Served by pull alone."""


TIERS = (Tier.P0, Tier.P1, Tier.P2)
"""The tiers that get rows."""


class SetKind(StrEnum):
    """The member sets. Those of a subject are kept by its owner, the others have no owner."""

    FOLLOWERS = "followers"
    MUTED = "muted"
    OFF = "off"
    FIRST = "first"
    DIGEST = "digest"
    VIP = "vip"
    ACTIVE_24H = "active24h"
    ACTIVE_7D = "active7d"
    ACTIVE_30D = "active30d"
    PUSH = "push"


OF_A_SUBJECT = (SetKind.FOLLOWERS, SetKind.MUTED, SetKind.OFF, SetKind.FIRST, SetKind.DIGEST)
OF_EVERYBODY = (SetKind.VIP, SetKind.ACTIVE_24H, SetKind.ACTIVE_7D, SetKind.ACTIVE_30D, SetKind.PUSH)

SUPPRESSING = (SetKind.MUTED, SetKind.OFF, SetKind.DIGEST, SetKind.FIRST)
"""In the order in which a follower who is in several of them is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSets:
    """The live sets of one shard, as they stand at the moment of sealing; an absent set is empty."""

    sets: Mapping[SetKind, Bits]
    mentioner_followers: Bits | None = None
    """Of a restricted burst: the only ones who may see it."""

    def __getitem__(self, kind: SetKind) -> Bits:
        return self.sets.get(kind, nobody())


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    tiers: Mapping[Tier, Bits]
    """Disjoint, and together everybody who is in the audience."""
    suppressed: Mapping[str, int]


def divide(live: ShardSets, *, first_of_day: bool, rows_for_dormant: bool) -> Audience:
    """Followers without those whom a rule suppresses, by tier.

    In the standard lane everybody gets a row, so P2 takes the dormant too.
    """
    audience, suppressed = _suppress(live, first_of_day)
    p0: Bits = audience & live[SetKind.VIP] & live[SetKind.ACTIVE_7D]
    p1: Bits = audience & live[SetKind.ACTIVE_24H] & ~p0
    rest: Bits = audience & ~(p0 | p1)
    p2: Bits = rest if rows_for_dormant else rest & live[SetKind.ACTIVE_30D]
    dormant: Bits = rest & ~p2
    return Audience(tiers={Tier.P0: p0, Tier.P1: p1, Tier.P2: p2, Tier.DORMANT: dormant}, suppressed=suppressed)


def _suppress(live: ShardSets, first_of_day: bool) -> tuple[Bits, dict[str, int]]:
    audience: Bits = live[SetKind.FOLLOWERS]
    suppressed: dict[str, int] = {}
    if live.mentioner_followers is not None:
        audience = audience & live.mentioner_followers
    for kind in SUPPRESSING:
        if kind not in live.sets or (kind is SetKind.FIRST and first_of_day):
            continue
        if n := count(audience & live[kind]):
            suppressed[str(kind)] = n
            audience = audience & ~live[kind]
    return audience, suppressed
