"""Tiers and suppression, computed as set algebra over the bitmaps of one shard."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from notifier.domain.audience.bitmap import Bits, count, no_members


class Tier(StrEnum):
    P0 = "p0"
    P1 = "p1"
    P2 = "p2"
    DORMANT = "dormant"
    """Gets no rows: inboxes of these members read the burst on demand (pull)."""


TIERS = (Tier.P0, Tier.P1, Tier.P2)
"""The tiers that get rows."""


class SetKind(StrEnum):
    """Member sets. Those in SUBJECT_SETS exist for each subject; the others are account-wide."""

    FOLLOWERS = "followers"
    MUTED = "muted"
    OFF = "off"
    FIRST = "first"
    DIGEST = "digest"
    ALL = "all"
    """Members with the subject volume `all`. It overrides their account-wide volume, unless that is `off`."""
    OVERALL_OFF = "overall_off"
    OVERALL_FIRST = "overall_first"
    OVERALL_DIGEST = "overall_digest"
    NO_PUSH = "no_push"
    PUSH_OPT_IN = "asked"
    """Members who explicitly asked for alerts. Members in neither this set nor NO_PUSH made no choice."""
    VIP = "vip"
    ACTIVE_24H = "active24h"
    ACTIVE_7D = "active7d"
    ACTIVE_30D = "active30d"
    WITH_DEVICE = "push"
    """Members with a device."""


SUBJECT_SETS = (SetKind.FOLLOWERS, SetKind.MUTED, SetKind.OFF, SetKind.FIRST, SetKind.DIGEST, SetKind.ALL)
ACCOUNT_WIDE_SETS = (
    *(SetKind.VIP, SetKind.ACTIVE_24H, SetKind.ACTIVE_7D, SetKind.ACTIVE_30D, SetKind.WITH_DEVICE),
    *(SetKind.OVERALL_OFF, SetKind.OVERALL_FIRST, SetKind.OVERALL_DIGEST, SetKind.NO_PUSH, SetKind.PUSH_OPT_IN),
)

SUPPRESSING_SETS = (
    *(SetKind.MUTED, SetKind.OVERALL_OFF, SetKind.OFF, SetKind.DIGEST, SetKind.OVERALL_DIGEST),
    *(SetKind.FIRST, SetKind.OVERALL_FIRST),
)
"""Sets that suppress rows. A follower in several of them is counted under the first."""

_SUBJECT_VOLUME_SETS = (SetKind.ALL, SetKind.FIRST, SetKind.DIGEST, SetKind.OFF)
_DEFAULT_VOLUME_SETS = (SetKind.OVERALL_DIGEST, SetKind.OVERALL_FIRST)
"""Account-wide sets that apply only to members without a volume for the subject."""
_FIRST_ONLY_SETS = (SetKind.FIRST, SetKind.OVERALL_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSets:
    """The live sets of one shard. A missing set is empty."""

    sets: Mapping[SetKind, Bits]
    mentioner_followers: Bits | None = None
    """Followers of the mentioner of a restricted burst. Only they may see the burst. None for public bursts."""

    def __getitem__(self, kind: SetKind) -> Bits:
        return self.sets.get(kind, no_members())

    @property
    def push_enabled(self) -> Bits:
        """Return members with a device who have not switched alerts off."""
        with_device: Bits = self[SetKind.WITH_DEVICE]
        return with_device & ~self[SetKind.NO_PUSH] if SetKind.NO_PUSH in self.sets else with_device

    @property
    def push_requested(self) -> Bits:
        """Return members with a device who explicitly asked for alerts."""
        bits: Bits = self.push_enabled & self[SetKind.PUSH_OPT_IN] if SetKind.PUSH_OPT_IN in self.sets else no_members()
        return bits

    def suppressed_by(self, kind: SetKind) -> Bits:
        """Return the members suppressed by this set for this subject."""
        bits = self[kind]
        if kind in _DEFAULT_VOLUME_SETS:
            for volume_set in _SUBJECT_VOLUME_SETS:
                bits = bits & ~self[volume_set] if volume_set in self.sets else bits
        return bits

    @property
    def first_only(self) -> Bits:
        """Return members who want only the first burst of a day."""
        bits: Bits = self.suppressed_by(SetKind.FIRST) | self.suppressed_by(SetKind.OVERALL_FIRST)
        return bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """The audience of one shard, by tier."""

    tiers: Mapping[Tier, Bits]
    """Disjoint. Together they are the whole audience."""
    suppressed_counts: Mapping[str, int]
    """Number of suppressed followers, by the set that suppressed them."""


class TierRule(Protocol):
    """Assign the members of a shard to tiers.

    A rule is a pure function of the sets and does not change them. It may return any members. Members outside the
    audience get nothing. A member of several tiers joins the first. A member of none is dormant; in the standard lane,
    it joins P2.
    """

    def __call__(self, live: ShardSets, /) -> Mapping[Tier, Bits]: ...


def by_activity(live: ShardSets, /) -> Mapping[Tier, Bits]:
    """Default rule. P0: VIPs active within 7 days. P1: active within 24 hours. P2: in the 30-day set (`p2_days`)."""
    return {
        Tier.P0: live[SetKind.VIP] & live[SetKind.ACTIVE_7D],
        Tier.P1: live[SetKind.ACTIVE_24H],
        Tier.P2: live[SetKind.ACTIVE_30D],
    }


def divide(live: ShardSets, *, first_of_day: bool, rows_for_dormant: bool, rule: TierRule = by_activity) -> Audience:
    """Remove suppressed followers and divide the remaining ones into disjoint tiers, whatever the rule returns.

    With `rows_for_dormant`, as in the standard lane, dormant members join P2.
    """
    audience, suppressed_counts = _suppress(live, first_of_day)
    by_rule = rule(live)
    p0: Bits = audience & by_rule.get(Tier.P0, no_members())
    p1: Bits = audience & by_rule.get(Tier.P1, no_members()) & ~p0
    remaining: Bits = audience & ~(p0 | p1)
    p2: Bits = remaining if rows_for_dormant else remaining & by_rule.get(Tier.P2, no_members())
    dormant: Bits = remaining & ~p2
    return Audience(
        tiers={Tier.P0: p0, Tier.P1: p1, Tier.P2: p2, Tier.DORMANT: dormant}, suppressed_counts=suppressed_counts
    )


def _suppress(live: ShardSets, first_of_day: bool) -> tuple[Bits, dict[str, int]]:
    audience: Bits = live[SetKind.FOLLOWERS]
    suppressed_counts: dict[str, int] = {}
    if live.mentioner_followers is not None:
        audience = audience & live.mentioner_followers
    for kind in SUPPRESSING_SETS:
        if kind not in live.sets or (kind in _FIRST_ONLY_SETS and first_of_day):
            continue
        excluded = live.suppressed_by(kind)
        if n := count(audience & excluded):
            suppressed_counts[str(kind)] = n
            audience = audience & ~excluded
    return audience, suppressed_counts
