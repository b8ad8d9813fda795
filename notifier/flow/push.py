"""Push: after the rows, one alert for those of a slice who had a device when it was sealed and may still be told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from notifier.domain.alert import alert
from notifier.domain.bits import Bits, members
from notifier.domain.burst import Burst
from notifier.domain.ledger import Entry, Fact
from notifier.domain.seal import Seal
from notifier.domain.slice import Slice
from notifier.domain.subject import Member
from notifier.flow.work import Hold
from notifier.ports.clock import Clock
from notifier.ports.ledger import Ledger
from notifier.ports.push import Sender, Sending, Sent, Spared
from notifier.ports.seals import Seals
from notifier.telemetry import Metrics

SHARDS_AT_ONCE = 8
"""Their seals are half a megabyte, so memory doesn't depend on the width of a slice; and who looks now, while these are
sent, is spared no more: that must be about a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    seals: Seals
    ledger: Ledger
    spared: Spared
    sender: Sender
    sent: Sent
    clock: Clock
    metrics: Metrics

    def __call__(self, burst: Burst, piece: Slice, hold: Hold) -> Entry:
        account = self.ledger.read([piece.burst])[piece.burst]
        worth_it = self.clock.now() < account.worth_until(piece)
        people = 0
        for some in self._sealed(piece):
            hold.keep()
            targets = self._targets(burst, piece, some) if worth_it else {}
            # After a crash between intent and outcome a window is sent again, with the same collapse id: a phone that
            # has the alert replaces it. Any other window is sent once.
            for sending in self.sent.intend(list(targets)):
                hold.keep()
                people += self._send(burst, sending, members(targets[sending], sending.shard))
        fact = Fact.DONE if worth_it else Fact.PULLED
        return Entry(slice=piece, fact=fact, at=self.clock.now(), people=people)

    def _sealed(self, piece: Slice) -> Iterator[Sequence[Seal]]:
        for start in range(0, piece.width, SHARDS_AT_ONCE):
            found = self.seals.read(piece.burst, piece.shards[start : start + SHARDS_AT_ONCE])
            yield [found[shard] for shard in sorted(found)]

    def _targets(self, burst: Burst, piece: Slice, some: Sequence[Seal]) -> dict[Sending, Bits]:
        """The seal says whom it was for; who has seen, muted or blocked since then is taken out right before sending.

        Fails closed: while nobody can say who that is, the slice waits.
        """
        sealed = {seal.shard: seal.tiers[piece.tier] & seal.push for seal in some}
        having = [shard for shard, targets in sealed.items() if targets.any()]
        spared = self.spared.read(burst, having) if having else ()
        left = {shard: sealed[shard] & ~silent for shard, silent in zip(having, spared, strict=True)}
        return {
            Sending(burst=burst.key, tier=piece.tier, shard=shard): targets
            for shard, targets in left.items()
            if targets.any()
        }

    def _send(self, burst: Burst, sending: Sending, people: Sequence[Member]) -> int:
        self.sender.send(alert(burst), people)
        self.sent.outcome(sending, len(people))
        self.metrics.alerts.labels(sending.tier).inc(len(people))
        return len(people)
