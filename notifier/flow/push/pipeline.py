"""Push pipeline: sends a slice's alerts, one send group at a time.

A slice covers some shards of a burst's audience for one tier and platform. The pipeline takes up to 128 shards at a
time. The first three steps set the fields of a `ShardState` for each shard.

The select step makes drafts. A draft is a batch of the send log, to be written or closed, with the devices to send to.
A batch has members of one shard, so drafts of several shards are combined into a send group of about 2,000 devices. A
crash repeats at most one group.

    step         does                                                            durable afterwards
    load         audience snapshot (members) and send log (what was sent)
    suppress     members who must not be alerted, or are in quiet hours
    catch up     late bursts of the subject: collapse, wait, or send a summary
    select       drafts: in doubt after a crash, then retries, then first alerts
    cap          frequency caps of each member                                   counts, in Redis only
    rate         circuit breakers, then the rate limit of the provider           tokens, in Redis only
    write ahead  the batches of the group, unless a batch number is taken        batches, open
    send         passes the alerts to the provider, takes its receipts           (the provider has them)
    record       closes the batches with the failed attempts                     batches, closed

Effect of a crash between two steps:

- Before write ahead: nothing of the group was sent, and the next worker repeats the steps. The caps count a burst once
  for each member, so the repetition does not count. Rate tokens are lost, and refill.
- Between write ahead and record: any device of the open batches may have the alert. The next worker finds the batches
  in doubt and closes them; retries follow. A retried alert keeps its collapse id, so a device that has the alert
  replaces it. The attempt in doubt counts as one of three attempts.
- After record: only devices whose attempt failed are sent to again.
- After the last record: the next worker continues from the send log, and writes the ledger entry.

If a worker stalls past the end of its claim, another worker takes over the slice. Each batch number is written only
once. A worker that finds its number taken stops before it sends the group. A worker that stalls after write ahead
renews its claim before it sends, and stops if the claim is lost.

Without the store no group is sent, and the slice is retried. Without Redis, caps and rates fall back to local state
(`frequency_caps`, `rate_limiter`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto

from notifier.domain.audience.bitmap import count
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.slice_and_pool import Slice
from notifier.domain.ids import Platform
from notifier.domain.push.batch_draft import Draft, count_attempts, within_rate
from notifier.domain.push.send_log import FailedAttempt, SendBatch, SendLogKey, send_progress
from notifier.domain.push.shard_state import ShardState
from notifier.flow.delivery.slice_worker import ClaimLost, SliceLease
from notifier.flow.push.alert_sender import AlertSender
from notifier.flow.push.circuit_breakers import CircuitBreakers, admit
from notifier.flow.push.device_selection import DEVICES_PER_BATCH, Selection
from notifier.flow.push.frequency_caps import FrequencyCaps
from notifier.flow.push.late_alert_catch_up import CatchUp
from notifier.flow.push.rate_limiter import RateLimiter
from notifier.ports.audience import AudienceSnapshots
from notifier.ports.bursts import Bursts
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import PushSuppressions, SendLog

SHARDS_PER_ROUND = 128
"""Shards that are processed together: a whole P0 slice. At most 12 MB of bitmaps."""
RATE_REFILL_TIME = timedelta(seconds=1)
"""Time in which the token bucket of a provider's rate limit refills completely."""


class GroupOutcome(Enum):
    """How the pipeline continues."""

    CONTINUE = auto()
    """Continue with the next group."""
    DEFER = auto()
    """Defer the rest of the slice: the rate limit or the circuit breaker allows no more now."""
    STOP = auto()
    """End the slice: the burst sends no more alerts."""


@dataclass(slots=True)
class SliceTotals:
    """Totals of one call of the pipeline, over the shards of its slice so far."""

    alerted_count: int = 0
    """Members alerted by all batches, including those of earlier workers of the slice."""
    wake_times: list[datetime] = field(default_factory=list)
    """Times at which the slice has more to do."""
    has_sent: bool = False
    """Whether this call has sent a send group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushPipeline:
    bursts: Bursts
    audience_snapshots: AudienceSnapshots
    push_suppressions: PushSuppressions
    send_log: SendLog
    catch_up: CatchUp
    selection: Selection
    caps: FrequencyCaps
    breakers: CircuitBreakers
    rate_limiters: Mapping[Platform, RateLimiter]
    sender: AlertSender
    clock: Clock
    devices_per_group: int = DEVICES_PER_BATCH
    """Devices after which a send group is full."""

    def __call__(self, burst: Burst, slice_: Slice, lease: SliceLease) -> LedgerEntry:
        """Run the pipeline over all shards of the slice; return the entry that ends or defers it."""
        now = self.clock.now()
        if now >= burst.opened_at + slice_.pool_timing.expires_after:
            return LedgerEntry(slice=slice_, fact=Fact.PULLED, at=now)
        if (until := self.breakers.retry_at(slice_.step.platform)) is not None:
            return LedgerEntry(slice=slice_, fact=Fact.DEFERRED, at=until)
        totals, outcome = SliceTotals(), GroupOutcome.CONTINUE
        for start in range(0, slice_.width, SHARDS_PER_ROUND):
            lease.renew_if_due()
            outcome = self._run_shards(burst, slice_, slice_.shards[start : start + SHARDS_PER_ROUND], lease, totals)
            if outcome is not GroupOutcome.CONTINUE:
                break
        if totals.wake_times and outcome is not GroupOutcome.STOP:
            return LedgerEntry(slice=slice_, fact=Fact.DEFERRED, at=min(totals.wake_times))
        return LedgerEntry(slice=slice_, fact=Fact.DONE, at=self.clock.now(), people=totals.alerted_count)

    def _run_shards(
        self, burst: Burst, slice_: Slice, shards: Sequence[int], lease: SliceLease, totals: SliceTotals
    ) -> GroupOutcome:
        if self._is_silent(burst):  # before the cap step: a silent burst must not use up any caps
            return GroupOutcome.STOP
        now = self.clock.now()
        states = self._suppress(burst, self._load(burst, slice_, shards), now)
        for state in states:
            totals.alerted_count += count(state.progress.alerted)
            totals.wake_times.extend(state.wake_times(now))
        states = self._catch_up(burst, slice_, states, lease, totals)
        for drafts in self._groups(burst, states, lease):
            outcome = self._send_group(burst, drafts, lease, totals)
            if outcome is not GroupOutcome.CONTINUE:
                return outcome
        return GroupOutcome.CONTINUE

    # Load, suppress, catch up: for all shards together.

    def _load(self, burst: Burst, slice_: Slice, shards: Sequence[int]) -> Sequence[ShardState]:
        """Return the state of each shard that has members to alert."""
        platform = slice_.step.platform
        to_alert = {
            shard: bits
            for shard, bits in self.audience_snapshots.read_to_alert(burst.key, shards, slice_.tier).items()
            if bits.any()
        }
        batches = self.send_log.read(burst.key, platform, to_alert) if to_alert else {}
        log_keys = {shard: SendLogKey(burst.key, slice_.tier, shard, platform) for shard in sorted(to_alert)}
        return [
            ShardState(log_key=log_key, to_alert=to_alert[shard], progress=send_progress(batches.get(log_key, ())))
            for shard, log_key in log_keys.items()
        ]

    def _suppress(self, burst: Burst, states: Sequence[ShardState], now: datetime) -> Sequence[ShardState]:
        """Add the current push suppressions, because the snapshot may be hours old.

        Fails closed: without an answer from the store this raises, and the slice is retried.
        """
        suppressions = self.push_suppressions.read(burst, [state.shard for state in states], now) if states else {}
        return [
            replace(
                state,
                suppressed=suppressions[state.shard].suppressed,
                quiet=suppressions[state.shard].quiet,
                quiet_until=suppressions[state.shard].recheck_at,
            )
            for state in states
        ]

    def _catch_up(
        self, burst: Burst, slice_: Slice, states: Sequence[ShardState], lease: SliceLease, totals: SliceTotals
    ) -> Sequence[ShardState]:
        """Apply the catch-up step. Note when to check the members that wait for a newer burst's alert."""
        now = self.clock.now()
        states = self.catch_up.apply(burst, slice_.step.platform, states, lease, now)
        if any(state.deferred.any() for state in states):
            totals.wake_times.append(self.catch_up.recheck_at(slice_, now))
        return states

    # Select, cap: draft by draft, until a send group is full.

    def _groups(self, burst: Burst, states: Sequence[ShardState], lease: SliceLease) -> Iterator[Sequence[Draft]]:
        """Yield send groups. Shards with few devices share a group: 1,000 devices take hardly longer than one.

        The iterator is lazy, because the cap step counts alerts: if the rate step rejects a group, no further group is
        counted.
        """
        group, device_count = list[Draft](), 0
        for state in states:
            lease.renew_if_due()
            now = self.clock.now()
            for draft in self.selection.drafts(burst, state, now):
                group.append(self._cap(burst, draft, now))
                device_count += len(group[-1].attempts)
                if device_count >= self.devices_per_group:
                    yield group
                    group, device_count = [], 0
        if group:
            yield group

    def _cap(self, burst: Burst, draft: Draft, now: datetime) -> Draft:
        """Apply the caps to a draft of first alerts. A retry was counted with the first alert of its member."""
        return draft.capped(self.caps.spend(burst, draft.members, now)) if draft.is_first_alert else draft

    # Rate, write ahead, send, record: group by group.

    def _send_group(
        self, burst: Burst, drafts: Sequence[Draft], lease: SliceLease, totals: SliceTotals
    ) -> GroupOutcome:
        # Hand the slice back only after a group was sent. Otherwise a slice whose reads take its whole time share would
        # be handed back each time, and never end.
        lease.renew(may_hand_back=totals.has_sent)
        if self._is_silent(burst):  # check again: sending the earlier groups may have taken long
            return GroupOutcome.STOP
        platform, admission = drafts[0].log_key.platform, admit(self.breakers, drafts)
        sendable = self._within_rate_limit(admission.drafts)
        if sendable:
            self._write_ahead(sendable)
            # If this worker has stalled, another one may have taken over and closed these batches as in doubt.
            lease.renew_if_due()
            closed_batches = self._record(sendable, self.sender.send(burst, sendable, lease))
            totals.has_sent = True
            totals.alerted_count += sum(count(draft.batch.alerted) for draft in sendable if not draft.is_in_doubt)
            totals.wake_times.extend(
                failure.at for batch in closed_batches for failure in batch.failures or () if failure.at is not None
            )
        totals.wake_times.extend(self._retry_at(line) for line in admission.blocked_lines)
        if count_attempts(sendable) < count_attempts(admission.drafts):
            totals.wake_times.append(self._retry_at(platform))
            return GroupOutcome.DEFER
        # If the whole platform is blocked, defer the slice. If only single lines are blocked, continue.
        return GroupOutcome.DEFER if platform in admission.blocked_lines else GroupOutcome.CONTINUE

    def _within_rate_limit(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        attempt_count = count_attempts(drafts)
        if not attempt_count:
            return drafts
        log_key = drafts[0].log_key
        granted = self.rate_limiters[log_key.platform].draw(log_key.tier, attempt_count, self.clock.now())
        return within_rate(drafts, granted)

    def _write_ahead(self, drafts: Sequence[Draft]) -> None:
        if not all(
            self.send_log.write_ahead([(draft.log_key, draft.batch) for draft in drafts if not draft.is_in_doubt])
        ):
            raise ClaimLost

    def _record(self, drafts: Sequence[Draft], failures: Sequence[Sequence[FailedAttempt]]) -> Sequence[SendBatch]:
        closed_batches = [
            replace(draft.batch, failures=tuple(draft_failures))
            for draft, draft_failures in zip(drafts, failures, strict=True)
        ]
        self.send_log.close([(draft.log_key, batch) for draft, batch in zip(drafts, closed_batches, strict=True)])
        return closed_batches

    def _retry_at(self, line: str) -> datetime:
        return self.breakers.retry_at(line) or self.clock.now() + RATE_REFILL_TIME

    def _is_silent(self, burst: Burst) -> bool:
        return self.bursts.read([burst.key])[burst.key].silent
