"""Publisher: turns a head's outbox into bursts, mentions, index entries, live updates and plans.

Once a head is swapped by compare-and-set, its outbox holds everything that was decided. Publishing is idempotent at
every step, and marks the head as published last. After a crash, the next process that loads the head completes it.
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
from notifier.ports.coordination import Clock, Nonces
from notifier.ports.ledger import Ledger
from notifier.ports.pull_index import PullIndex

# Planning: by the follower counts of the burst's subject and, if the burst is restricted, of its author.


def plan_burst(sets: MemberSets, burst: Burst, platforms: Collection[Platform]) -> Plan:
    if burst.pull_only:  # no shards: the plan is complete at once, and its accounting balances at 0
        return make_plan(burst, NO_FOLLOWERS, platforms)
    counts = sets.follower_counts(burst.key.subject)
    if burst.restricted_to is not None:
        counts = intersection(counts, sets.follower_counts(Subject(Kind.MENTION, burst.restricted_to)))
    return make_plan(burst, counts, platforms)


MAX_RESTAMPS = 5
"""Maximum of new opening times (restamps) per late burst. After that, the burst is published although it is late."""


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
    """Platforms that alerts go to."""

    def finish(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        """Return the published heads of the subjects, after completing interrupted publishing.

        Subjects that another process is publishing right now are missing.
        """
        heads = self.heads.load(subjects)
        unpublished = [head for head in heads.values() if not head.is_published]
        published = {head.subject: head for head in self._publish(unpublished)}
        return {s: published.get(s, head) for s, head in heads.items() if head.is_published or s in published}

    def swap_and_publish(self, heads: Sequence[Head]) -> tuple[set[Subject], Sequence[Head]]:
        """Swap the heads by compare-and-set, and publish those that were swapped.

        Return the subjects of the swapped heads, and the published heads.
        """
        won = self._swap(heads)
        return {head.subject for head in won}, self._publish(won)

    def _publish(self, heads: Sequence[Head]) -> Sequence[Head]:
        """Write bursts and mentions, pull index, live update and plan; mark the head as published last.

        The burst precedes the index that points to it. The plan comes after both, because its slices read the burst.
        """
        with_plan: set[BurstKey] = set()
        heads = self._write_and_announce(self._with_late_bursts_restamped(heads, with_plan))
        for _ in range(MAX_RESTAMPS):
            # If this process stalled, a page that was read meanwhile may already count the opening time as seen.
            now = self.clock.now()
            if not (late := [head for head in heads if _is_late(head, now, with_plan)]):
                break
            on_time = [head for head in heads if head not in late]
            heads = [*on_time, *self._write_and_announce(self._with_late_bursts_restamped(late, with_plan))]
        self.live_publisher.publish([burst for head in heads for burst in head.outbox])
        self.ledger.store_plans(
            [plan_burst(self.sets, burst, self.platforms) for head in heads for burst in _unannounced(head)]
        )
        for head in heads:
            for burst in _unannounced(head):
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
        # Fails open: an index list without this entry does not prove that it is complete, so the store is read instead.
        with suppress(CacheUnavailable):
            self.pull.announce([burst for head in heads for burst in _unannounced(head)])
        return heads

    def _with_late_bursts_restamped(self, heads: Sequence[Head], with_plan: set[BurstKey]) -> Sequence[Head]:
        """Return the heads with late bursts restamped, without heads that another coordinator has changed.

        A late burst with a plan keeps its opening time, and is added to `with_plan`. Plans are read only for late
        bursts: earlier, the coordinator that decided a burst may still be publishing it.
        """
        now = self.clock.now()
        with_plan |= self._bursts_with_plan([head for head in heads if _is_late(head, now, with_plan)])
        restamped = []
        for head in heads:
            kept = {key.seq for key in with_plan if key.subject == head.subject}
            new = with_late_bursts_restamped(head, written=kept, now=now, nonce=self.nonces.new())
            if new is not head:
                restamped.append(new)
        self.metrics.restamps.inc(len(restamped))
        swapped = {head.subject: head for head in self._swap(restamped)}
        lost = {head.subject for head in restamped} - set(swapped)
        return [swapped.get(head.subject, head) for head in heads if head.subject not in lost]

    def _bursts_with_plan(self, heads: Sequence[Head]) -> set[BurstKey]:
        """Return the bursts whose plan has their opening time: another process has published them with it."""
        bursts = {burst.key: burst for head in heads for burst in _unannounced(head)}
        progress_by_burst = self.ledger.read(bursts) if bursts else {}
        return {key for key, progress in progress_by_burst.items() if progress.plan.opened_at == bursts[key].opened_at}

    def _swap(self, heads: Sequence[Head]) -> list[Head]:
        """Swap the heads by compare-and-set; return those that were swapped."""
        if not heads:
            return []
        return [head for head, won in zip(heads, self.heads.compare_and_set(heads), strict=True) if won]


def _unannounced(head: Head) -> list[Burst]:
    return [burst for burst in head.outbox if burst.key.seq > head.announced]


def _is_late(head: Head, now: datetime, with_plan: Collection[BurstKey]) -> bool:
    return any(
        now > burst.opened_at + VISIBILITY_DEADLINE for burst in _unannounced(head) if burst.key not in with_plan
    )
