"""Retractor: settles retractions from the log, sends live updates, and erases text."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from notifier.codec import unpack
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey
from notifier.flow.sequencing.erasure import Erasure
from notifier.flow.sequencing.live_publisher import LivePublisher
from notifier.flow.sequencing.retracted_burst_updates import RetractionSettlement
from notifier.ports.bursts import Bursts
from notifier.ports.event_log_and_dead_letters import Logged


@dataclass(frozen=True, slots=True, kw_only=True)
class Retractor:
    settlement: RetractionSettlement
    erasure: Erasure
    bursts: Bursts
    live_publisher: LivePublisher

    def __call__(self, records: Sequence[Logged]) -> None:
        """Settle the retractions of the records, and then erase devices and remaining text.

        The text may remain in edits, held mentions and dead letters; the devices are those of erased authors. The
        records are committed last, so after a crash all steps are repeated. Every step is idempotent.
        """
        retractions = [unpack(Retraction, logged.record.value) for logged in records]
        try:
            for settled in self.settlement.settle_in_batches(retractions):
                self._send_live_updates(settled)
        except Poison:
            # A burst can't be settled, for example because its head is unreadable. The record may become a dead letter
            # and is then never read again. So erase before the error is raised.
            self.erasure.erase(retractions)
            raise
        self.erasure.erase(retractions)

    def _send_live_updates(self, settled: Collection[BurstKey]) -> None:
        """Send the bursts to open streams, including bursts that the gateway or a coordinator has settled.

        That process may have crashed before sending them. Listeners ignore a version that they have seen.
        """
        self.live_publisher.publish([*self.bursts.read(settled).values()])
