"""Catch-up step: merges late alerts of one subject into one summary.

Alerts are late 15 minutes after the opening of their burst.

A batch names, for each member, the older bursts that the alert covers. The batch is written before the alert is sent.
An older burst is collapsed for a member only if a batch names that burst. While a newer burst may be sent soon, the
older burst waits, because the newer burst may yet be suppressed for the member.

Every wait ends: a burst waits only for newer bursts, and the newest burst waits for none. In any case a slice ends
after a day.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.backoff_due_times_alert_ages import PUSH_LIFETIME
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress, is_late
from notifier.domain.delivery.slice_and_pool import Slice
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey, Platform, Subject
from notifier.domain.push.late_alert_catch_up import (
    NEWER_DUE_WITHIN,
    LateAudience,
    ShardsByTier,
    members_to_alert_in,
    recheck_after,
    sends_alerts,
    shards_due_soon,
    unsent_shards,
)
from notifier.domain.push.send_log import SendBatch, send_progress
from notifier.domain.push.shard_state import ShardState
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.ports.audience import AudienceSnapshots
from notifier.ports.bursts import Bursts
from notifier.ports.ledger_claims_deferred_bursts_scan import Ledger
from notifier.ports.push import PushSuppressions, SendLog

FIRST_READ_SIZE = 16
"""Burst numbers in the first read; each further read has twice as many as the read before it."""
MAX_BURSTS_WITHOUT_ALERTS = 65_536
"""Number of bursts above which `bursts_without_alerts` is cleared; 20 MB."""
_ANY_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class SameSubjectBursts:
    """Reads the siblings of a burst: the other bursts of its subject that send alerts. For one thread.

    Bursts that never send alerts are remembered. Siblings are read every time, because they may have been retracted.
    """

    bursts: Bursts
    max_bursts_without_alerts: int = MAX_BURSTS_WITHOUT_ALERTS
    bursts_without_alerts: dict[BurstKey, datetime] = field(default_factory=dict, init=False)
    """Opening times of the bursts that never send alerts."""

    def newer(self, burst: Burst) -> Sequence[Burst]:
        """Return all newer siblings, the newest first."""
        return list(self._read_siblings(burst.key.subject, _ascending_runs(burst.key.seq + 1), _ANY_TIME))[::-1]

    def older(self, burst: Burst, since: datetime) -> Sequence[Burst]:
        """Return the older siblings that opened at `since` or later, the newest first."""
        siblings = self._read_siblings(burst.key.subject, _descending_runs(burst.key.seq - 1), since)
        return [sibling for sibling in siblings if sibling.opened_at >= since]

    def _read_siblings(self, subject: Subject, seq_runs: Iterator[range], since: datetime) -> Iterator[Burst]:
        """Yield the bursts with these numbers that send alerts, with one read for each run of numbers.

        Stop after a read whose last burst does not exist, or opened before `since`.
        """
        for seqs in seq_runs:
            keys = [BurstKey(subject, seq) for seq in seqs]
            bursts = self.bursts.read([key for key in keys if key not in self.bursts_without_alerts])
            last = keys[-1]
            opened_at = bursts[last].opened_at if last in bursts else self.bursts_without_alerts.get(last)
            self._remember(bursts.values())
            yield from (bursts[key] for key in keys if key in bursts and sends_alerts(bursts[key]))
            if opened_at is None or opened_at < since:
                return

    def _remember(self, bursts: Iterable[Burst]) -> None:
        if len(self.bursts_without_alerts) > self.max_bursts_without_alerts:
            self.bursts_without_alerts.clear()
        self.bursts_without_alerts |= {burst.key: burst.opened_at for burst in bursts if not sends_alerts(burst)}


def _ascending_runs(seq: int) -> Iterator[range]:
    size = FIRST_READ_SIZE
    while True:
        yield range(seq, seq + size)
        seq, size = seq + size, size * 2


def _descending_runs(seq: int) -> Iterator[range]:
    size = FIRST_READ_SIZE
    while seq > 0:
        yield range(seq, max(0, seq - size), -1)
        seq, size = seq - size, size * 2


AudienceByShard = Mapping[int, LateAudience]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """Decides about the alerts of a late burst, member by member: send, collapse, or wait for a newer burst.

    An alert that is sent may cover older bursts. It is then a summary.
    """

    siblings: SameSubjectBursts
    ledger: Ledger
    audience_snapshots: AudienceSnapshots
    send_log: SendLog
    push_suppressions: PushSuppressions

    def apply(
        self, burst: Burst, platform: Platform, states: Sequence[ShardState], lease: SliceLease, now: datetime
    ) -> Sequence[ShardState]:
        """Return the states with the decisions of this step. If the burst is not late, return them unchanged."""
        ready = {state.shard: state.ready for state in states}
        audiences = {shard: LateAudience.of_members(bits) for shard, bits in ready.items() if bits.any()}
        if not audiences or not is_late(burst, now):
            return states
        for newer in self.siblings.newer(burst):
            lease.renew_if_due()
            audiences |= self._consider_newer(burst, newer, platform, _remaining(audiences), now)
        for older in self.siblings.older(burst, now - PUSH_LIFETIME) if _remaining(audiences) else ():
            lease.renew_if_due()
            audiences |= self._cover_older(older, platform, _remaining(audiences), now)
        return [state.after_catch_up(audiences[state.shard]) if state.shard in audiences else state for state in states]

    def recheck_at(self, slice_: Slice, now: datetime) -> datetime:
        """Return when a slice that waits for newer bursts checks them again."""
        progress = self.ledger.read([slice_.burst])[slice_.burst]
        return now + recheck_after(progress.slice_states[slice_].times_deferred)

    def _consider_newer(
        self, burst: Burst, newer: Burst, platform: Platform, audiences: AudienceByShard, now: datetime
    ) -> AudienceByShard:
        """Collapse members who were alerted of the newer burst, if that alert covers `burst`.

        Defer members who may soon be alerted of the newer burst.
        """
        snapshots = self._read_snapshots(newer, audiences)
        # Only the alert of a late burst covers older bursts. A newer burst that is not late yet may be late when it is
        # sent, so look ahead.
        will_be_late = is_late(newer, now + NEWER_DUE_WITHIN)
        # Read the ledger before the batches. In the opposite order, a slice could alert and finish between the two
        # reads, and its batch would be missing.
        due_shards = (
            self._shards_by_tier(newer, snapshots, lambda progress: shards_due_soon(progress, platform, now))
            if will_be_late
            else {}
        )
        batches = self._read_batches(newer.key, platform, snapshots)
        decided, pending = dict[int, LateAudience](), dict[int, Bits]()
        for shard, snapshot in snapshots.items():
            newer_batches = batches.get(shard, ())
            audience = audiences[shard].with_sibling_batches(newer_batches)
            decided[shard] = audience.collapse(audience.already_covered(burst.key.seq))
            pending[shard] = (
                members_to_alert_in(snapshot, due_shards)
                & decided[shard].remaining
                & ~send_progress(newer_batches).in_batches
            )
        for shard, bits in self._not_suppressed(newer, pending, now).items():
            decided[shard] = decided[shard].defer(bits)
        return decided

    def _cover_older(
        self, older: Burst, platform: Platform, audiences: AudienceByShard, now: datetime
    ) -> AudienceByShard:
        """Let this burst's alert cover the older burst, for members who were not alerted of the older one."""
        snapshots = self._read_snapshots(older, audiences)
        batches = self._read_batches(older.key, platform, snapshots)
        decided, uncovered = dict[int, LateAudience](), dict[int, Bits]()
        for shard, snapshot in snapshots.items():
            older_batches = batches.get(shard, ())
            audience = decided[shard] = audiences[shard].with_sibling_batches(older_batches)
            bits = (
                snapshot.to_alert
                & audience.remaining
                & ~send_progress(older_batches).in_batches
                & ~audience.already_covered(older.key.seq)
            )
            if bits.any():
                uncovered[shard] = bits
        unfinished_shards = self._shards_by_tier(older, uncovered, lambda progress: unsent_shards(progress, platform))
        uncovered = {
            shard: bits & members_to_alert_in(snapshots[shard], unfinished_shards) for shard, bits in uncovered.items()
        }
        for shard, bits in self._not_suppressed(older, uncovered, now).items():
            decided[shard] = decided[shard].cover(older.key.seq, bits)
        return decided

    def _read_snapshots(self, sibling: Burst, audiences: AudienceByShard) -> Mapping[int, AudienceSnapshot]:
        """Read the sibling's snapshots of the shards in which the sibling alerts any of these members.

        In a shard without a snapshot, the sibling has alerted no member.
        """
        snapshots = self.audience_snapshots.read(sibling.key, audiences) if audiences else {}
        return {
            shard: snapshot
            for shard, snapshot in snapshots.items()
            if (snapshot.to_alert & audiences[shard].remaining).any()
        }

    def _shards_by_tier(
        self, sibling: Burst, shards: Collection[int], select: Callable[[BurstProgress], ShardsByTier]
    ) -> ShardsByTier:
        """Select shards by the sibling's progress.

        Select none if the sibling sends no more alerts, or if its progress is unreadable: then the dispatcher queues
        none of its slices.
        """
        if not shards or sibling.silent:
            return {}
        try:
            progress = self.ledger.read([sibling.key]).get(sibling.key)
        except Poison:
            return {}
        return select(progress) if progress else {}

    def _read_batches(
        self, key: BurstKey, platform: Platform, shards: Collection[int]
    ) -> Mapping[int, Sequence[SendBatch]]:
        """Read the batches of all tiers: the sibling's snapshot may have a member in another tier."""
        batches_by_shard = dict[int, list[SendBatch]]()
        for log_key, batches in self.send_log.read(key, platform, shards).items() if shards else ():
            batches_by_shard.setdefault(log_key.shard, []).extend(batches)
        return batches_by_shard

    def _not_suppressed(self, sibling: Burst, members: Mapping[int, Bits], now: datetime) -> Mapping[int, Bits]:
        nonempty = {shard: bits for shard, bits in members.items() if bits.any()}
        suppressions = self.push_suppressions.read(sibling, nonempty, now) if nonempty else {}
        return {shard: bits & ~suppressions[shard].suppressed for shard, bits in nonempty.items()}


def _remaining(audiences: AudienceByShard) -> AudienceByShard:
    return {shard: audience for shard, audience in audiences.items() if audience.remaining.any()}
