"""The room in which bursts become rows and alerts."""

from collections.abc import Callable
from datetime import timedelta

from notifier.domain.slice import Step
from notifier.flow.delivery import Delivery
from notifier.flow.dispatcher import Dispatcher
from notifier.flow.mending import MendedSets
from notifier.flow.push import Push
from notifier.flow.rates import Rates
from notifier.flow.work import Work
from notifier.system.house import House


class Telling(House):
    """Slice by slice."""

    __slots__ = ()

    def dispatcher(self) -> Dispatcher:
        p = self.ports
        return Dispatcher(
            ledger=p.ledger,
            queue=p.queue,
            rates=Rates(throttles=p.throttles, pressure=p.pressure),
            leadership=self.leadership("dispatcher", timedelta(seconds=5)),
            report=p.report,
            clock=p.clock,
            metrics=self.metrics,
        )

    def work(self, alive: Callable[[], None] = lambda: None, stopping: Callable[[], bool] = lambda: False) -> Work:
        """Calls `alive` while a slice makes progress, and hands it back once `stopping` says so."""
        p = self.ports
        return Work(
            doings={Step.ROWS: self.delivery(), Step.PUSH: self.push()},
            bursts=p.bursts,
            claims=p.claims,
            ledger=p.ledger,
            dead_letters=p.dead_letters,
            clock=p.clock,
            metrics=self.metrics,
            owner=self.owner,
            alive=alive,
            stopping=stopping,
        )

    def delivery(self) -> Delivery:
        p = self.ports
        sets = MendedSets(port=p.sets, log=p.log, clock=p.clock)
        return Delivery(sets=sets, seals=p.seals, inbox=p.inbox, clock=p.clock, metrics=self.metrics, rule=self.rule)

    def push(self) -> Push:
        p = self.ports
        return Push(
            bursts=p.bursts,
            seals=p.seals,
            ledger=p.ledger,
            spared=p.spared,
            sender=p.sender,
            sent=p.sent,
            clock=p.clock,
            metrics=self.metrics,
        )
