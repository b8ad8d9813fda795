"""Push: after the rows, one alert for those of a slice who had a device when it was sealed."""

from dataclasses import dataclass

from notifier.domain.alert import alert
from notifier.domain.bits import Bits, members
from notifier.domain.burst import Burst
from notifier.domain.ledger import Entry, Fact
from notifier.domain.slice import Slice
from notifier.flow.work import Hold
from notifier.ports.clock import Clock
from notifier.ports.push import Sender, Sending, Sent
from notifier.ports.seals import Seals
from notifier.telemetry import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    seals: Seals
    sender: Sender
    sent: Sent
    clock: Clock
    metrics: Metrics

    def __call__(self, burst: Burst, piece: Slice, hold: Hold) -> Entry:
        worth_it = self.clock.now() < burst.opened_at + piece.terms.worth
        people = 0
        for shard, sealed in sorted(self.seals.read(burst.key, piece.shards).items()):
            targets: Bits = sealed.tiers[piece.tier] & sealed.push
            hold.keep()
            if worth_it and targets.any():
                people += self._send(burst, Sending(burst=burst.key, tier=piece.tier, shard=shard), targets)
        fact = Fact.DONE if worth_it else Fact.PULLED
        return Entry(slice=piece, fact=fact, at=self.clock.now(), people=people)

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
