"""The room in which mentions get their burst, and lose it."""

from notifier.flow.sequencing.coordinator import Coordinator
from notifier.flow.sequencing.erasure import Erasing
from notifier.flow.sequencing.publisher import Publisher
from notifier.flow.sequencing.retraction_settlement import Settling
from notifier.flow.sequencing.retractor import Retractor
from notifier.system.calling import Calling


class Numbering(Calling):
    """By a subject's head alone."""

    __slots__ = ()

    def coordinator(self) -> Coordinator:
        p = self.ports
        return Coordinator(
            bursts=p.bursts,
            settling=self.settling(),
            publisher=self.publisher(),
            clock=p.clock,
            nonces=p.nonces,
            collapse=self.settings.collapse,
            refill=self.settings.refill,
        )

    def publisher(self) -> Publisher:
        p = self.ports
        return Publisher(
            heads=p.heads,
            bursts=p.bursts,
            sets=p.sets,
            ledger=p.ledger,
            pull=p.pull,
            voice=self.voice,
            clock=p.clock,
            nonces=p.nonces,
            metrics=self.metrics,
            platforms=p.platforms,
        )

    def settling(self) -> Settling:
        p = self.ports
        return Settling(retractions=p.retractions, bursts=p.bursts, publisher=self.publisher(), nonces=p.nonces)

    def retractor(self) -> Retractor:
        p = self.ports
        return Retractor(
            retractions=p.retractions,
            settling=self.settling(),
            erasing=self.erasing(),
            bursts=p.bursts,
            voice=self.voice,
            clock=p.clock,
        )

    def erasing(self) -> Erasing:
        p = self.ports
        return Erasing(
            retractions=p.retractions,
            traces=p.traces,
            directory=p.directory,
            phonebook=self.phonebook(),
            clock=p.clock,
            metrics=self.metrics,
        )
