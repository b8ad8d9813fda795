"""Builders of the indexers and of the device registry.

The `owns_records` callback of an indexer returns whether the process still owns the partitions of its records.
"""

from collections.abc import Callable

from notifier.flow.accounts.account_indexer import AccountIndexer
from notifier.flow.devices.device_indexer import DepartedAccountDevices, DeviceIndexer
from notifier.flow.devices.device_registry import DeviceRegistry
from notifier.flow.indexing.activity_indexer_and_rollup import ActivityIndexer, RollUp
from notifier.flow.indexing.bitmap_updates_and_repair import Bitmaps
from notifier.flow.indexing.graph_indexer import GraphIndexer
from notifier.wiring.shared_parts import System, build_leadership


def build_graph_indexer(system: System, owns_records: Callable[[], bool]) -> GraphIndexer:
    ports = system.ports
    bitmaps = Bitmaps(
        follows=ports.follows,
        subject_preferences=ports.subject_preferences,
        account_preferences=ports.account_preferences,
        sets=ports.sets,
        metrics=system.metrics,
    )
    return GraphIndexer(
        directory=ports.directory,
        bitmaps=bitmaps,
        user_blocks=ports.user_blocks,
        epochs=ports.epochs,
        owns_records=owns_records,
    )


def build_account_indexer(system: System, owns_records: Callable[[], bool]) -> AccountIndexer:
    ports = system.ports
    return AccountIndexer(
        directory=ports.directory,
        flags=ports.account_flags,
        device_registry=build_device_registry(system),
        sets=ports.sets,
        epochs=ports.epochs,
        metrics=system.metrics,
        owns_records=owns_records,
    )


def build_device_indexer(system: System, owns_records: Callable[[], bool]) -> DeviceIndexer:
    ports = system.ports
    return DeviceIndexer(
        devices=ports.devices,
        departed_accounts=DepartedAccountDevices(directory=ports.directory, retractions=ports.retractions),
        sets=ports.sets,
        epochs=ports.epochs,
        metrics=system.metrics,
        owns_records=owns_records,
    )


def build_device_registry(system: System) -> DeviceRegistry:
    ports = system.ports
    return DeviceRegistry(devices=ports.devices, directory=ports.directory, log=ports.log, clock=ports.clock)


def build_activity_indexer(system: System) -> ActivityIndexer:
    ports = system.ports
    return ActivityIndexer(directory=ports.directory, hours=ports.active_hours, clock=ports.clock)


def build_activity_roll_up(system: System) -> RollUp:
    ports, settings = system.ports, system.settings
    return RollUp(
        directory=ports.directory,
        hours=ports.active_hours,
        active_sets=ports.active_sets,
        sets=ports.sets,
        epochs=ports.epochs,
        leadership=build_leadership(system, "rollup", 2 * settings.roll_up_every),
        clock=ports.clock,
        metrics=system.metrics,
        p2_days=settings.p2_days,
    )
