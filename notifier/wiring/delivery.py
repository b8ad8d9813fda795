"""The room in which bursts become rows and alerts."""

from collections.abc import Callable, Mapping
from datetime import timedelta

from notifier.domain.delivery.slice import PHONES, Step
from notifier.domain.ids import Platform
from notifier.flow.delivery.dispatcher import Dispatcher
from notifier.flow.delivery.row_writer import Delivery
from notifier.flow.delivery.slice_worker import Work
from notifier.flow.delivery.throttling import Rates
from notifier.flow.indexing.bitmap_repair import MendedSets
from notifier.flow.push.batches import Calls
from notifier.flow.push.catch_up import Away, Neighbours
from notifier.flow.push.circuit_breakers import Breakers
from notifier.flow.push.frequency_caps import Capping
from notifier.flow.push.push_handler import Push
from notifier.flow.push.rate_limiter import Easing, Pacing
from notifier.flow.push.sender import Ringing
from notifier.wiring.stages import Calling


class Telling(Calling):
    """Slice by slice."""

    __slots__ = ()

    def dispatcher(self) -> Dispatcher:
        p = self.ports
        return Dispatcher(
            ledger=p.ledger,
            sleepers=p.sleepers,
            queue=p.queue,
            rates=Rates(throttles=p.throttles, pressure=p.pressure, lane_tallies=p.lane_tallies),
            leadership=self.leadership("dispatcher", timedelta(seconds=5)),
            report=p.report,
            clock=p.clock,
            metrics=self.metrics,
        )

    def work(self, alive: Callable[[], None] = lambda: None, stopping: Callable[[], bool] = lambda: False) -> Work:
        """Calls `alive` while a slice makes progress, and hands it back once `stopping` says so."""
        p = self.ports
        return Work(
            doings={Step.ROWS: self.delivery(), **dict.fromkeys(PHONES, self.push())},
            bursts=p.bursts,
            claims=p.claims,
            ledger=p.ledger,
            dead_letters=p.dead_letters,
            guards=self.lane_guards(),
            clock=p.clock,
            metrics=self.metrics,
            owner=self.owner,
            alive=alive,
            stopping=stopping,
        )

    def delivery(self) -> Delivery:
        p = self.ports
        sets = MendedSets(port=p.sets, log=p.log, clock=p.clock)
        return Delivery(
            sets=sets,
            seals=p.seals,
            inbox=p.inbox,
            clock=p.clock,
            metrics=self.metrics,
            rule=self.rule,
            pushed=self.settings.push.pushed,
        )

    def push(self) -> Push:
        p = self.ports
        breakers, pacing = Breakers(clock=p.clock, report=p.lines, metrics=self.metrics), self.pacing()
        near = Neighbours(bursts=p.bursts)
        away = Away(neighbours=near, ledger=p.ledger, seals=p.seals, sent=p.sent, spared=p.spared)
        capping = Capping(caps=p.caps, metrics=self.metrics, terms=self.settings.push.caps)
        return Push(
            bursts=p.bursts,
            seals=p.seals,
            spared=p.spared,
            sent=p.sent,
            away=away,
            calls=Calls(devices=p.devices, capping=capping),
            ringing=self.ringing(breakers, pacing),
            breakers=breakers,
            pacing=pacing,
            clock=p.clock,
        )

    def ringing(self, breakers: Breakers, pacing: Mapping[Platform, Pacing]) -> Ringing:
        p = self.ports
        return Ringing(
            sent=p.sent,
            providers=p.providers,
            breakers=breakers,
            pacing=pacing,
            book=self.phonebook(),
            clock=p.clock,
            chance=p.chance,
            metrics=self.metrics,
        )

    def pacing(self) -> Mapping[Platform, Pacing]:
        p = self.ports
        easing = Easing(tabs=p.tabs, pressure=p.pressure, metrics=self.metrics)
        return {
            platform: Pacing(platform=platform, paces=p.paces, easing=easing, metrics=self.metrics, terms=terms)
            for platform, terms in self.settings.push.paces.items()
        }
