"""Retractor: settles retractions from the log, announces changed bursts, and erases the rest."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from notifier.codec import unpack
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey
from notifier.flow.sequencing.erasure import Erasure
from notifier.flow.sequencing.live_publisher import LivePublisher
from notifier.flow.sequencing.retraction_settlement import RetractionSettlement
from notifier.ports.bursts import Bursts
from notifier.ports.event_log import Logged


@dataclass(frozen=True, slots=True, kw_only=True)
class Retractor:
    settlement: RetractionSettlement
    erasure: Erasure
    bursts: Bursts
    live_publisher: LivePublisher

    def __call__(self, records: Sequence[Logged]) -> None:
        """Settle the retractions of the records, then erase what settlement does not reach.

        The order is: store the retractions; settle and announce batch after batch of bursts; erase. The records are
        committed last, so a crash between any two effects repeats all of them, here or in another process. Every effect
        is idempotent. The gateway has usually settled most bursts before.
        """
        retractions = [unpack(Retraction, logged.record.value) for logged in records]
        try:
            for settled in self.settlement.settle_in_batches(retractions):
                self._announce(settled)
        except Poison:
            # The head of a burst is unreadable, so the retraction's record becomes a dead letter and is not read again.
            # So erase now.
            self.erasure.erase(retractions)
            raise
        self.erasure.erase(retractions)

    def _announce(self, settled: Collection[BurstKey]) -> None:
        """Publish the bursts to open streams, including those that another process settled.

        The other process may have crashed before announcing them. Listeners ignore a version that they have seen.
        """
        self.live_publisher.publish([*self.bursts.read(settled).values()])
