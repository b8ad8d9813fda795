"""Catch-up: late alerts of one subject become one summary."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import Bits, no_members
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_due_times_alert_ages import Backoff
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import BurstProgress, Fact, SliceState
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.ids import Platform
from notifier.domain.push.send_log import OlderBursts, SendBatch

NEWER_DUE_WITHIN = timedelta(minutes=2)
"""An older burst may wait for a newer burst whose slices are due within this time."""
RECHECK_BACKOFF = Backoff(first=timedelta(seconds=1), longest=NEWER_DUE_WITHIN / 2)
"""Waits between two checks of a newer burst. They grow, because each wait writes to the ledger."""

ShardsByTier = Mapping[Tier, Collection[int]]
"""Shards of some push slices of a burst, by tier."""


def sends_alerts(burst: Burst) -> bool:
    """Return whether alerts were planned when the burst opened. A retraction does not change that."""
    return burst.verdict is Verdict.ALL and not burst.pull_only


def recheck_after(times_deferred: int) -> timedelta:
    return RECHECK_BACKOFF.delay(times_deferred)


def shards_due_soon(progress: BurstProgress, platform: Platform, now: datetime) -> ShardsByTier:
    """Return the shards of the burst's push slices that are due now, or within NEWER_DUE_WITHIN."""
    slices = _push_slices(progress, platform)
    return _by_tier(slice_state for slice_state in slices if progress.is_runnable(slice_state, now + NEWER_DUE_WITHIN))


def unsent_shards(progress: BurstProgress, platform: Platform) -> ShardsByTier:
    """Return the shards of push slices that are unfinished or dead. Some of their alerts may have been sent."""
    slices = _push_slices(progress, platform)
    return _by_tier(
        slice_state
        for slice_state in slices
        if slice_state.final_entry is None or slice_state.final_entry.fact is Fact.DEAD
    )


def members_to_alert_in(snapshot: AudienceSnapshot, shards: ShardsByTier) -> Bits:
    """Return the snapshot's members to alert, of those tiers whose `shards` include the snapshot's shard."""
    bits = no_members()
    for tier, tier_shards in shards.items():
        if snapshot.shard in tier_shards:
            bits = bits | snapshot.members_to_alert(tier)
    return bits


@dataclass(frozen=True, slots=True, kw_only=True)
class LateAudience:
    """The members of one shard to alert of a late burst, divided into those who get its alert, need none, or wait.

    The sets are updated while other bursts of the subject (sibling bursts) are examined, newest first.
    """

    remaining: Bits
    """Members who get this burst's own alert, according to the siblings examined so far."""
    collapsed: Bits = field(default_factory=no_members)
    """Members whose alert of a newer burst covers this burst."""
    deferred: Bits = field(default_factory=no_members)
    """Members that a newer burst may be about to alert."""
    covers: Mapping[OlderBursts, Bits]
    """The remaining members, by the older bursts that their alert covers (an empty tuple if it covers none)."""
    covered_elsewhere: tuple[tuple[OlderBursts, Bits], ...] = ()
    """Older bursts that alerts of sibling bursts covered, with the members of these alerts."""

    @classmethod
    def of_members(cls, members: Bits) -> "LateAudience":
        return cls(remaining=members, covers={(): members})

    def with_sibling_batches(self, batches: Sequence[SendBatch]) -> "LateAudience":
        """Add the older bursts that a sibling burst's alerts covered."""
        covered = [
            (older_bursts, bits & self.remaining) for batch in batches for older_bursts, bits in batch.summaries.items()
        ]
        new = tuple((older_bursts, bits) for older_bursts, bits in covered if bits.any())
        return replace(self, covered_elsewhere=self.covered_elsewhere + new) if new else self

    def already_covered(self, seq: int) -> Bits:
        """Return the members whose alert of a sibling burst covered the burst with this number."""
        members = no_members()
        for older_bursts, bits in self.covered_elsewhere:
            if seq in older_bursts:
                members = members | bits
        return members

    def collapse(self, members: Bits) -> "LateAudience":
        return replace(self._without(members), collapsed=self.collapsed | (self.remaining & members))

    def defer(self, members: Bits) -> "LateAudience":
        return replace(self._without(members), deferred=self.deferred | (self.remaining & members))

    def cover(self, seq: int, members: Bits) -> "LateAudience":
        """Let the alert cover an older burst for these members. Call it for the older bursts from newest to oldest."""
        covers = dict[OlderBursts, Bits]()
        for older_bursts, bits in self.covers.items():
            covered, uncovered = bits & members, bits & ~members
            if covered.any():
                covers[seq, *older_bursts] = covered
            if uncovered.any():
                covers[older_bursts] = uncovered
        return replace(self, covers=covers)

    def _without(self, members: Bits) -> "LateAudience":
        remaining = self.remaining & ~members
        return replace(self, remaining=remaining, covers={(): remaining})


def _push_slices(progress: BurstProgress, platform: Platform) -> Iterator[SliceState]:
    step = Step.for_platform(platform)
    return (slice_state for slice_, slice_state in progress.slice_states.items() if slice_.step is step)


def _by_tier(slice_states: Iterable[SliceState]) -> ShardsByTier:
    by_tier = dict[Tier, set[int]]()
    for slice_state in slice_states:
        by_tier.setdefault(slice_state.slice.tier, set()).update(slice_state.slice.shards)
    return by_tier
