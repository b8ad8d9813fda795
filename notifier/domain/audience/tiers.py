"""Audiences as set algebra over the bitmaps of one shard: who belongs to which tier, and who is left out by a rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from notifier.domain.audience.bitmap import Bits, count, nobody


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
    ALL = "all"
    """Those who said so of the subject: what they want of everything doesn't count for it."""
    OVERALL_OFF = "overall_off"
    OVERALL_FIRST = "overall_first"
    OVERALL_DIGEST = "overall_digest"
    NO_PUSH = "no_push"
    ASKED = "asked"
    """Those who said of everything that they want alerts, where the others only never said no."""
    VIP = "vip"
    ACTIVE_24H = "active24h"
    ACTIVE_7D = "active7d"
    ACTIVE_30D = "active30d"
    PUSH = "push"


OF_A_SUBJECT = (SetKind.FOLLOWERS, SetKind.MUTED, SetKind.OFF, SetKind.FIRST, SetKind.DIGEST, SetKind.ALL)
OF_EVERYBODY = (
    *(SetKind.VIP, SetKind.ACTIVE_24H, SetKind.ACTIVE_7D, SetKind.ACTIVE_30D, SetKind.PUSH),
    *(SetKind.OVERALL_OFF, SetKind.OVERALL_FIRST, SetKind.OVERALL_DIGEST, SetKind.NO_PUSH, SetKind.ASKED),
)

SUPPRESSING = (
    *(SetKind.MUTED, SetKind.OVERALL_OFF, SetKind.OFF, SetKind.DIGEST, SetKind.OVERALL_DIGEST),
    *(SetKind.FIRST, SetKind.OVERALL_FIRST),
)
"""In the order in which a follower who is in several of them is counted."""

_OWN_WORDS = (SetKind.ALL, SetKind.FIRST, SetKind.DIGEST, SetKind.OFF)
_BY_DEFAULT = (SetKind.OVERALL_DIGEST, SetKind.OVERALL_FIRST)
"""Of those who said nothing of the subject itself."""
_FIRST = (SetKind.FIRST, SetKind.OVERALL_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSets:
    """The live sets of one shard, as they stand at the moment of sealing; an absent set is empty."""

    sets: Mapping[SetKind, Bits]
    mentioner_followers: Bits | None = None
    """Of a restricted burst: the only ones who may see it."""

    def __getitem__(self, kind: SetKind) -> Bits:
        return self.sets.get(kind, nobody())

    @property
    def phones(self) -> Bits:
        """Of those who want alerts."""
        found: Bits = self[SetKind.PUSH]
        return found & ~self[SetKind.NO_PUSH] if SetKind.NO_PUSH in self.sets else found

    @property
    def asked(self) -> Bits:
        """Of those, who asked for alerts."""
        found: Bits = self.phones & self[SetKind.ASKED] if SetKind.ASKED in self.sets else nobody()
        return found

    def ruled(self, kind: SetKind) -> Bits:
        """Those whom the rule of this name leaves out, of this subject."""
        found = self[kind]
        if kind in _BY_DEFAULT:
            for own in _OWN_WORDS:
                found = found & ~self[own] if own in self.sets else found
        return found

    @property
    def first_only(self) -> Bits:
        """Those who want the first burst of a day alone."""
        found: Bits = self.ruled(SetKind.FIRST) | self.ruled(SetKind.OVERALL_FIRST)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    tiers: Mapping[Tier, Bits]
    """Disjoint, and together everybody who is in the audience."""
    suppressed: Mapping[str, int]


class TierRule(Protocol):
    """Who of a shard is to be in which tier, by its sets alone: the same sets give the same answer, and aren't changed.

    It may name anybody: who isn't in the audience gets nothing, who is named for several tiers is in the first of them,
    and who is named for none is dormant.
    """

    def __call__(self, live: ShardSets, /) -> Mapping[Tier, Bits]: ...


def by_activity(live: ShardSets, /) -> Mapping[Tier, Bits]:
    """VIPs of the last 7 days first, then whoever was around within 24 hours, and then within P2's reach."""
    return {
        Tier.P0: live[SetKind.VIP] & live[SetKind.ACTIVE_7D],
        Tier.P1: live[SetKind.ACTIVE_24H],
        Tier.P2: live[SetKind.ACTIVE_30D],
    }


def divide(live: ShardSets, *, first_of_day: bool, rows_for_dormant: bool, rule: TierRule = by_activity) -> Audience:
    """Followers without those whom a rule suppresses, by tier: disjoint, and all of them, whatever the rule says.

    In the standard lane everybody gets a row, so P2 takes the dormant too.
    """
    audience, suppressed = _suppress(live, first_of_day)
    named = rule(live)
    p0: Bits = audience & named.get(Tier.P0, nobody())
    p1: Bits = audience & named.get(Tier.P1, nobody()) & ~p0
    rest: Bits = audience & ~(p0 | p1)
    p2: Bits = rest if rows_for_dormant else rest & named.get(Tier.P2, nobody())
    dormant: Bits = rest & ~p2
    return Audience(tiers={Tier.P0: p0, Tier.P1: p1, Tier.P2: p2, Tier.DORMANT: dormant}, suppressed=suppressed)


def _suppress(live: ShardSets, first_of_day: bool) -> tuple[Bits, dict[str, int]]:
    audience: Bits = live[SetKind.FOLLOWERS]
    suppressed: dict[str, int] = {}
    if live.mentioner_followers is not None:
        audience = audience & live.mentioner_followers
    for kind in SUPPRESSING:
        if kind not in live.sets or (kind in _FIRST and first_of_day):
            continue
        ruled = live.ruled(kind)
        if n := count(audience & ruled):
            suppressed[str(kind)] = n
            audience = audience & ~ruled
    return audience, suppressed
