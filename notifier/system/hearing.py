"""The room in which events come in, and are split by account."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from notifier.flow.intake.gateway import PLACES_AT_ONCE, Gateway
from notifier.flow.intake.moderation import Reaching
from notifier.flow.intake.router import Router, Sizes
from notifier.flow.operations.preview import Preview
from notifier.system.numbering import Numbering


class Hearing(Numbering):
    """Who retracts by HTTP waits for the heads."""

    __slots__ = ()

    def gateway(self) -> Gateway:
        p = self.ports
        settle = partial(self.retractor().settle, most=PLACES_AT_ONCE)
        return Gateway(log=p.log, recent=p.recent, clock=p.clock, metrics=self.metrics, settle=settle)

    def router(self) -> Router:
        p = self.ports
        return Router(
            log=p.log,
            reaching=self.reaching(),
            holds=p.holds,
            erasing=self.erasing(),
            bursts=p.bursts,
            buckets=p.buckets,
            sizes=Sizes(sets=p.sets, heads=p.heads, clock=p.clock, threshold=self.settings.threshold),
            metrics=self.metrics,
            cap=self.settings.reach.cap,
        )

    def reaching(self) -> Reaching:
        p = self.ports
        return Reaching(directory=p.directory, reaches=p.reaches, overalls=p.overalls, follows=p.follows, holds=p.holds)

    def preview(self, turn: Callable[[], AbstractContextManager[None]] = nullcontext) -> Preview:
        p = self.ports
        return Preview(
            reaching=self.reaching(),
            sets=p.sets,
            heads=p.heads,
            retractions=p.retractions,
            ledger=p.ledger,
            recent=p.recent_bursts,
            throttles=p.throttles,
            clock=p.clock,
            threshold=self.settings.threshold,
            collapse=self.settings.collapse,
            refill=self.settings.refill,
            rule=self.rule,
            pushed=self.settings.push.pushed,
            turn=turn,
        )
