"""Builders of the indexers, which keep the bitmaps of followers, accounts, devices and activity.

The `holds` callback of an indexer returns whether the indexer still owns its partition.
"""

from collections.abc import Callable

from notifier.flow.accounts.account_indexer import Registrar
from notifier.flow.devices.device_indexer import Departed, Switchboard
from notifier.flow.devices.registry import PhoneBook
from notifier.flow.indexing.activity import Attendant, RollUp
from notifier.flow.indexing.bitmaps import Bitmaps
from notifier.flow.indexing.graph_indexer import Indexer
from notifier.wiring.system import System, build_leadership


def build_graph_indexer(system: System, holds: Callable[[], bool]) -> Indexer:
    """Build the indexer of follows, user blocks and subject preferences."""
    ports = system.ports
    bitmaps = Bitmaps(
        follows=ports.follows, wants=ports.wants, overalls=ports.overalls, sets=ports.sets, metrics=system.metrics
    )
    return Indexer(
        directory=ports.directory, bitmaps=bitmaps, partings=ports.partings, epochs=ports.epochs, holds=holds
    )


def build_account_indexer(system: System, holds: Callable[[], bool]) -> Registrar:
    """Build the indexer of account flags."""
    ports = system.ports
    return Registrar(
        directory=ports.directory,
        flags=ports.flags,
        phonebook=build_device_registry(system),
        sets=ports.sets,
        epochs=ports.epochs,
        metrics=system.metrics,
        holds=holds,
    )


def build_device_indexer(system: System, holds: Callable[[], bool]) -> Switchboard:
    """Build the indexer of devices."""
    ports = system.ports
    return Switchboard(
        devices=ports.devices,
        departed=Departed(directory=ports.directory, retractions=ports.retractions),
        sets=ports.sets,
        epochs=ports.epochs,
        metrics=system.metrics,
        holds=holds,
    )


def build_device_registry(system: System) -> PhoneBook:
    """Build the registry, through which devices are registered, listed and dropped."""
    ports = system.ports
    return PhoneBook(devices=ports.devices, directory=ports.directory, log=ports.log, clock=ports.clock)


def build_activity_indexer(system: System) -> Attendant:
    """Build the stage that records which users were active in which hour."""
    ports = system.ports
    return Attendant(directory=ports.directory, hours=ports.active_hours, clock=ports.clock)


def build_activity_roll_up(system: System) -> RollUp:
    """Build the periodic job that joins hours of activity into active sets."""
    ports, settings = system.ports, system.settings
    return RollUp(
        directory=ports.directory,
        hours=ports.active_hours,
        stays=ports.stays,
        sets=ports.sets,
        epochs=ports.epochs,
        leadership=build_leadership(system, "rollup", 2 * settings.roll_up_every),
        clock=ports.clock,
        metrics=system.metrics,
        reach=settings.p2_days,
    )
