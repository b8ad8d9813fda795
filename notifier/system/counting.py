"""The room in which bitmaps are kept: who follows, wants, is a VIP, and is around."""

from collections.abc import Callable

from notifier.flow.accounts.account_indexer import Registrar
from notifier.flow.indexing.activity_indexer import Attendant
from notifier.flow.indexing.activity_rollup import RollUp
from notifier.flow.indexing.bitmaps import Bitmaps
from notifier.flow.indexing.graph_indexer import Indexer
from notifier.system.calling import Calling


class Counting(Calling):
    """One writer each."""

    __slots__ = ()

    def indexer(self, holds: Callable[[], bool]) -> Indexer:
        p = self.ports
        bitmaps = Bitmaps(follows=p.follows, wants=p.wants, overalls=p.overalls, sets=p.sets, metrics=self.metrics)
        return Indexer(directory=p.directory, bitmaps=bitmaps, partings=p.partings, epochs=p.epochs, holds=holds)

    def registrar(self, holds: Callable[[], bool]) -> Registrar:
        p = self.ports
        return Registrar(
            directory=p.directory,
            flags=p.flags,
            phonebook=self.phonebook(),
            sets=p.sets,
            epochs=p.epochs,
            metrics=self.metrics,
            holds=holds,
        )

    def attendant(self) -> Attendant:
        p = self.ports
        return Attendant(directory=p.directory, hours=p.active_hours, clock=p.clock)

    def rollup(self) -> RollUp:
        p = self.ports
        return RollUp(
            directory=p.directory,
            hours=p.active_hours,
            stays=p.stays,
            sets=p.sets,
            epochs=p.epochs,
            leadership=self.leadership("rollup", 2 * self.settings.roll_up_every),
            clock=p.clock,
            metrics=self.metrics,
            reach=self.settings.p2_days,
        )
