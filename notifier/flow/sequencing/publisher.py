"""The publisher: a head that was swapped becomes bursts, mentions, an index, a live word and plans, and says so last.

After the swap, everything that was decided stands in the head's outbox. Publishing it is idempotent at every step, so a
crash anywhere is finished by whoever next finds `published = false`.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import VISIBLE_WITHIN, Head, published, restamped
from notifier.domain.delivery.plan import NO_FOLLOWERS, Plan, narrowed, plan
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Kind, Platform, Subject
from notifier.flow.sequencing.live_publisher import Voice
from notifier.metrics import Metrics
from notifier.ports.audience import MemberSets
from notifier.ports.bursts import Bursts, Heads
from notifier.ports.coordination import Clock, Nonces
from notifier.ports.ledger import Ledger
from notifier.ports.pull_index import PullIndex

# Planning: a burst's plan by its subject's head, and by its author's where it is restricted.


def planned(sets: MemberSets, burst: Burst, platforms: Collection[Platform]) -> Plan:
    if burst.pull_only:  # no shards: the plan is settled as it is made, and its books balance at 0
        return plan(burst, NO_FOLLOWERS, platforms)
    size = sets.head(burst.key.subject)
    if burst.restricted_to is not None:
        size = narrowed(size, sets.head(Subject(Kind.MENTION, burst.restricted_to)))
    return plan(burst, size, platforms)


RESTAMPS = 5
"""A store that is always too slow for a burst to be visible in time must not keep it from being published at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    heads: Heads
    bursts: Bursts
    sets: MemberSets
    ledger: Ledger
    pull: PullIndex
    voice: Voice
    clock: Clock
    nonces: Nonces
    metrics: Metrics
    platforms: Collection[Platform] = ()
    """Those that alerts go to."""

    def finish(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        """The published heads of the subjects: what a predecessor left undone is done first.

        Those that somebody else is publishing right now are left out.
        """
        heads = self.heads.load(subjects)
        undone = [head for head in heads.values() if not head.published]
        done = {head.subject: head for head in self._publish(undone)}
        return {s: done.get(s, head) for s, head in heads.items() if head.published or s in done}

    def swap_and_publish(self, heads: Sequence[Head]) -> tuple[set[Subject], Sequence[Head]]:
        """Compare-and-set the heads, publish those that won, and return their subjects and the published heads."""
        won = self._swap(heads)
        return {head.subject for head in won}, self._publish(won)

    def _publish(self, heads: Sequence[Head]) -> Sequence[Head]:
        """Burst and mentions, pull index, live message, plan, and last the head's word that all of it stands.

        The burst comes before the index that points to it, and the plan last, because slices read the burst.
        """
        proven: set[BurstKey] = set()
        heads = self._show(self._in_time(heads, proven))
        for _ in range(RESTAMPS):
            # Were we stopped on the way? Then a page may already claim to have covered the opening time.
            now = self.clock.now()
            if not (late := [head for head in heads if _late(head, now, proven)]):
                break
            shown = [head for head in heads if head not in late]
            heads = [*shown, *self._show(self._in_time(late, proven))]
        self.voice.publish([burst for head in heads for burst in head.outbox])
        self.ledger.plan([planned(self.sets, burst, self.platforms) for head in heads for burst in _unannounced(head)])
        for head in heads:
            for burst in _unannounced(head):
                self.metrics.bursts.labels(burst.lane).inc()
        return self._swap([published(head, nonce=self.nonces.new()) for head in heads])

    def _show(self, heads: Sequence[Head]) -> Sequence[Head]:
        bursts = [burst for head in heads for burst in head.outbox]
        if bursts:
            self.bursts.write(
                bursts,
                [mention for head in heads for mention in head.sequenced],
                [mention for head in heads for mention in head.changed],
            )
        # Fails open: a list without this entry has a gap, proves nothing, and the store is read instead.
        with suppress(CacheUnavailable):
            self.pull.announce([burst for head in heads for burst in _unannounced(head)])
        return heads

    def _in_time(self, heads: Sequence[Head], proven: set[BurstKey]) -> Sequence[Head]:
        """The heads, those with a late burst re-stamped; without those that another coordinator changed meanwhile.

        Whoever decided it may be publishing it right now. So its plan is asked for once it is late, never before.
        """
        now = self.clock.now()
        proven |= self._proven([head for head in heads if _late(head, now, proven)])
        moved = []
        for head in heads:
            kept = {key.seq for key in proven if key.subject == head.subject}
            new = restamped(head, written=kept, now=now, nonce=self.nonces.new())
            if new is not head:
                moved.append(new)
        self.metrics.restamps.inc(len(moved))
        renewed = {head.subject: head for head in self._swap(moved)}
        lost = {head.subject for head in moved} - set(renewed)
        return [renewed.get(head.subject, head) for head in heads if head.subject not in lost]

    def _proven(self, heads: Sequence[Head]) -> set[BurstKey]:
        """Bursts that somebody else had made visible in time, or they would have no plan: they keep their moment."""
        bursts = {burst.key: burst for head in heads for burst in _unannounced(head)}
        accounts = self.ledger.read(bursts) if bursts else {}
        return {key for key, account in accounts.items() if account.plan.opened_at == bursts[key].opened_at}

    def _swap(self, heads: Sequence[Head]) -> list[Head]:
        if not heads:
            return []
        return [head for head, won in zip(heads, self.heads.swap(heads), strict=True) if won]


def _unannounced(head: Head) -> list[Burst]:
    return [burst for burst in head.outbox if burst.key.seq > head.announced]


def _late(head: Head, now: datetime, proven: Collection[BurstKey]) -> bool:
    return any(now > burst.opened_at + VISIBLE_WITHIN for burst in _unannounced(head) if burst.key not in proven)
