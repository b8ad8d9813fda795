"""The room in which it is kept who has which devices."""

from collections.abc import Callable

from notifier.flow.devices.device_indexer import Departed, Switchboard
from notifier.flow.devices.registry import PhoneBook
from notifier.system.house import House


class Calling(House):
    """Whoever takes accounts away asks for the book, too."""

    __slots__ = ()

    def phonebook(self) -> PhoneBook:
        p = self.ports
        return PhoneBook(devices=p.devices, directory=p.directory, log=p.log, clock=p.clock)

    def switchboard(self, holds: Callable[[], bool]) -> Switchboard:
        p = self.ports
        return Switchboard(
            devices=p.devices,
            departed=Departed(directory=p.directory, retractions=p.retractions),
            sets=p.sets,
            epochs=p.epochs,
            metrics=self.metrics,
            holds=holds,
        )
