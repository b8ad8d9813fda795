"""The room of those who look after the others: what is half done, late, or asked for by operators."""

from datetime import timedelta

from notifier.flow.delivery.load_monitor import Monitor
from notifier.flow.delivery.reconciler import Reconciler
from notifier.flow.operations.overview import Overview
from notifier.system.numbering import Numbering


class Minding(Numbering):
    """They finish heads, too."""

    __slots__ = ()

    def reconciler(self) -> Reconciler:
        p = self.ports
        return Reconciler(
            publisher=self.publisher(),
            heads=p.heads,
            recent=p.recent_bursts,
            pull=p.pull,
            ledger=p.ledger,
            seals=p.seals,
            inbox=p.inbox,
            holds=p.holds,
            log=p.log,
            leadership=self.leadership("reconciler", timedelta(seconds=10)),
            clock=p.clock,
            metrics=self.metrics,
        )

    def monitor(self) -> Monitor:
        p = self.ports
        return Monitor(
            leases=p.leases,
            queue=p.queue,
            report=p.report,
            pressure=p.pressure,
            lines=p.lines,
            clock=p.clock,
            metrics=self.metrics,
            owner=self.owner,
            every=self.settings.monitor_every,
        )

    def overview(self) -> Overview:
        """One for each process: it remembers what it has looked at."""
        p = self.ports
        return Overview(
            ledger=p.ledger,
            sleepers=p.sleepers,
            recent=p.recent_bursts,
            seals=p.seals,
            throttles=p.throttles,
            lane_tallies=p.lane_tallies,
            report=p.report,
            pressure=p.pressure,
            lines=p.lines,
            pull=p.pull,
            clock=p.clock,
        )
