"""Push: after the rows, one alert for those of a slice who had a device when it was sealed and may still be told."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from notifier.domain.alert import alert
from notifier.domain.bits import Bits, members
from notifier.domain.burst import Burst
from notifier.domain.ledger import Entry, Fact
from notifier.domain.slice import Slice
from notifier.flow.work import Hold
from notifier.ports.bursts import Bursts
from notifier.ports.clock import Clock
from notifier.ports.ledger import Ledger
from notifier.ports.push import Sender, Sending, Sent, Spared
from notifier.ports.seals import Seals
from notifier.telemetry import Metrics

SHARDS_AT_ONCE = 16
"""Their bitmaps are half a megabyte: memory must not depend on the width of a slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    bursts: Bursts
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
        for shard, alerted in self._alerted(piece):
            hold.keep()
            if worth_it and (targets := self._targets(burst, shard, alerted)).any():
                people += self._send(burst, Sending(burst=burst.key, tier=piece.tier, shard=shard), targets)
        fact = Fact.DONE if worth_it else Fact.PULLED
        return Entry(slice=piece, fact=fact, at=self.clock.now(), people=people)

    def _alerted(self, piece: Slice) -> Iterator[tuple[int, Bits]]:
        for start in range(0, piece.width, SHARDS_AT_ONCE):
            if self.bursts.read([piece.burst])[piece.burst].silent:  # since the slice began
                return
            found = self.seals.alerted(piece.burst, piece.shards[start : start + SHARDS_AT_ONCE], piece.tier)
            yield from sorted(found.items(), key=itemgetter(0))

    def _targets(self, burst: Burst, shard: int, alerted: Bits) -> Bits:
        """The seal says whom it was for; who has seen, muted or blocked since then is taken out right before sending,
        and so is who wants no alerts, or none at this hour.

        Fails closed: while nobody can say who that is, the slice waits.
        """
        return alerted & ~self.spared.read(burst, shard, self.clock.now()) if alerted.any() else alerted

    def _send(self, burst: Burst, sending: Sending, targets: Bits) -> int:
        # After a crash between intent and outcome the window is sent again, with the same collapse id: a phone that
        # has the alert replaces it. Any other window is sent once.
        if not self.sent.intend(sending):
            return 0
        people = members(targets, sending.shard)
        self.sender.send(alert(burst), people)
        self.sent.outcome(sending, len(people))
        self.metrics.alerts.labels(sending.tier).inc(len(people))
        return len(people)
