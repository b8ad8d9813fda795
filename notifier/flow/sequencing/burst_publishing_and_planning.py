"""Publisher: makes the bursts in a head's outbox visible, and plans them.

After its compare-and-set, a head's outbox holds everything that was decided. From it the publisher writes bursts,
mentions, index entries, live updates and plans. Every step is idempotent, and the last step empties the outbox. After a
crash all steps are repeated.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import VISIBILITY_DEADLINE, Head, after_publishing, with_late_bursts_restamped
from notifier.domain.delivery.plan import NO_FOLLOWERS, Plan, intersection, make_plan
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Kind, Platform, Subject
from notifier.flow.sequencing.live_publisher import LivePublisher
from notifier.metrics import Metrics
from notifier.ports.audience import MemberSets
from notifier.ports.bursts import Bursts, Heads
from notifier.ports.leases_queues_throttles_clock import Clock, Nonces
from notifier.ports.ledger_claims_deferred_bursts_scan import Ledger
from notifier.ports.pull_index import PullIndex

# Planning: cuts a burst into slices, from the follower counts of its subject. A restricted burst reaches only those
# followers who also follow its author.


def plan_burst(sets: MemberSets, burst: Burst, platforms: Collection[Platform]) -> Plan:
    if burst.pull_only:  # no shards: the plan is complete at once, and its accounting balances at 0
        return make_plan(burst, NO_FOLLOWERS, platforms)
    counts = sets.follower_counts(burst.key.subject)
    if burst.restricted_to is not None:
        counts = intersection(counts, sets.follower_counts(Subject(Kind.MENTION, burst.restricted_to)))
    return make_plan(burst, counts, platforms)


MAX_RESTAMPS = 5
"""Maximum number of restamps (new opening times) after the first write. A burst that is late even then is published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    heads: Heads
    bursts: Bursts
    sets: MemberSets
    ledger: Ledger
    pull: PullIndex
    live_publisher: LivePublisher
    clock: Clock
    nonces: Nonces
    metrics: Metrics
    platforms: Collection[Platform] = ()
    """Platforms for which plans have slices of alerts."""

    def finish_publishing(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        """Load the subjects' heads, publish what is left in their outboxes, and return the heads with empty outboxes.

        A subject is missing in the result if another process has changed its head during this call.
        """
        heads = self.heads.load(subjects)
        unpublished = [head for head in heads.values() if not head.is_published]
        published = {head.subject: head for head in self._publish(unpublished)}
        return {s: published.get(s, head) for s, head in heads.items() if head.is_published or s in published}

    def swap_and_publish(self, heads: Sequence[Head]) -> tuple[set[Subject], Sequence[Head]]:
        """Swap the heads by compare-and-set, and publish those that were swapped.

        Return the subjects of the swapped heads, and the published heads.
        """
        swapped_heads = self._swap(heads)
        return {head.subject for head in swapped_heads}, self._publish(swapped_heads)

    def _publish(self, heads: Sequence[Head]) -> Sequence[Head]:
        """Publish the outboxes and empty them; return the heads. Leave out heads that another process has changed.

        Each burst is written before the index entry that points to it. Plans are written after the bursts, because
        workers read the burst of a slice.
        """
        planned_bursts: set[BurstKey] = set()
        heads = self._write_and_announce(self._restamp_late_bursts(heads, planned_bursts))
        for _ in range(MAX_RESTAMPS):
            # If this process stalled before a burst was readable, a user may have opened a page without the burst. The
            # user may have marked everything up to the opening time as seen. A new opening time makes the burst unseen.
            now = self.clock.now()
            if not (late := [head for head in heads if _is_late(head, now, planned_bursts)]):
                break
            on_time = [head for head in heads if head not in late]
            heads = [*on_time, *self._write_and_announce(self._restamp_late_bursts(late, planned_bursts))]
        self.live_publisher.publish([burst for head in heads for burst in head.outbox])
        self.ledger.store_plans(
            [plan_burst(self.sets, burst, self.platforms) for head in heads for burst in _newly_opened(head)]
        )
        for head in heads:
            for burst in _newly_opened(head):
                self.metrics.bursts.labels(burst.lane).inc()
        return self._swap([after_publishing(head, nonce=self.nonces.new()) for head in heads])

    def _write_and_announce(self, heads: Sequence[Head]) -> Sequence[Head]:
        bursts = [burst for head in heads for burst in head.outbox]
        if bursts:
            self.bursts.write(
                bursts,
                [mention for head in heads for mention in head.sequenced],
                [mention for head in heads for mention in head.changed],
            )
        # Fails open: after a failed announcement, pages are read from the store until the reconciler has compared the
        # index with the store.
        with suppress(CacheUnavailable):
            self.pull.announce([burst for head in heads for burst in _newly_opened(head)])
        return heads

    def _restamp_late_bursts(self, heads: Sequence[Head], planned_bursts: set[BurstKey]) -> Sequence[Head]:
        """Give late bursts new opening times. Return all heads except those that another process has changed.

        A burst whose plan has its current opening time keeps that time: an earlier attempt has published the burst.
        `planned_bursts` collects such bursts of heads with a late burst.
        """
        now = self.clock.now()
        planned_bursts |= self._read_planned([head for head in heads if _is_late(head, now, planned_bursts)])
        restamped = []
        for head in heads:
            planned_seqs = {key.seq for key in planned_bursts if key.subject == head.subject}
            new_head = with_late_bursts_restamped(head, planned=planned_seqs, now=now, nonce=self.nonces.new())
            if new_head is not head:
                restamped.append(new_head)
        self.metrics.restamps.inc(len(restamped))
        swapped = {head.subject: head for head in self._swap(restamped)}
        changed_by_others = {head.subject for head in restamped} - set(swapped)
        return [swapped.get(head.subject, head) for head in heads if head.subject not in changed_by_others]

    def _read_planned(self, heads: Sequence[Head]) -> set[BurstKey]:
        """Return the bursts whose plan has their current opening time: an earlier attempt has published them."""
        bursts = {burst.key: burst for head in heads for burst in _newly_opened(head)}
        progress_by_burst = self.ledger.read(bursts) if bursts else {}
        return {key for key, progress in progress_by_burst.items() if progress.plan.opened_at == bursts[key].opened_at}

    def _swap(self, heads: Sequence[Head]) -> list[Head]:
        if not heads:
            return []
        return [head for head, is_swapped in zip(heads, self.heads.compare_and_set(heads), strict=True) if is_swapped]


def _newly_opened(head: Head) -> list[Burst]:
    """Return the new bursts of the outbox. Its other bursts were published before, and have changed since."""
    return [burst for burst in head.outbox if burst.key.seq > head.announced]


def _is_late(head: Head, now: datetime, planned_bursts: Collection[BurstKey]) -> bool:
    """Return whether a burst of the head is late and is not in `planned_bursts`."""
    return any(
        now > burst.opened_at + VISIBILITY_DEADLINE for burst in _newly_opened(head) if burst.key not in planned_bursts
    )
