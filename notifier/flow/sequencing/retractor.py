"""The retractor: what is said of tweets and their authors stands before anything else is done about it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from notifier.codec import unpack
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey
from notifier.flow.sequencing.erasure import Erasing
from notifier.flow.sequencing.live_publisher import Voice
from notifier.flow.sequencing.retraction_settlement import Settling, Then
from notifier.ports.bursts import Bursts
from notifier.ports.clock import Clock
from notifier.ports.event_log import Logged
from notifier.ports.retractions import Retractions


@dataclass(frozen=True, slots=True, kw_only=True)
class Retractor:
    retractions: Retractions
    settling: Settling
    erasing: Erasing
    bursts: Bursts
    voice: Voice
    clock: Clock

    def __call__(self, records: Sequence[Logged]) -> None:
        """Nobody is shown what was taken back when it returns, and no word is left of who was erased. Cut off anywhere,
        the records come again, to this reader or to another, and whoever does it again does the same."""
        words = [unpack(Retraction, logged.record.value) for logged in records]
        try:
            self.settle(words, then=self._tell)
        except Poison:  # of a head: the record dies of it, and comes to nobody who could go on
            self.erasing(words)
            raise
        self.erasing(words)

    def settle(self, retractions: Collection[Retraction], most: int | None = None, then: Then = len) -> None:
        """They stand, and the bursts with them, or those of so many mentions."""
        # The word first: a coordinator that writes a mention from here on finds it when it asks what stands, and what
        # it has written before is found by the trails.
        self.retractions.write(retractions)
        now = self.clock.now()
        self.settling([trail for one in retractions for trail in one.leads_to(now)], most, then)

    def _tell(self, settled: Collection[BurstKey]) -> None:
        """Also what somebody else has settled, who may have died before it was said: a word of a version that a
        listener has heard is passed over."""
        self.voice.publish([*self.bursts.read(settled).values()])
