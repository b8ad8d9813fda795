"""Command `notifier devices`: lists the devices of a user and removes one."""

import re
from collections.abc import Mapping
from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.options import AccountParam, data_option, json_option, settings_for
from notifier.cli.output import iso_time, print_json, print_sentence, print_table
from notifier.domain.audience.bitmap import contains, shard_of
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import NotFound
from notifier.domain.ids import Member, UserId
from notifier.domain.push.device import Device, DeviceId
from notifier.flow.devices.device_registry import DeviceRegistry
from notifier.flow.indexing.bitmap_updates_and_repair import read_bitmap
from notifier.ports.all_ports import Ports

MISMATCH_REASONS = {
    True: "the user was loaded with a device, or the last device was removed a moment ago",
    False: "the device indexer has not processed the registration yet",
}
"""Usual reasons for which the device bitmap and the device rows differ, by whether the user is in the bitmap."""
DEVICE_ID = re.compile(r"[0-9a-f]{32}")


@click.command(epilog=example("notifier devices u1", "notifier devices u1 --remove 0f8c0d6f3b2b4a5e9d7c1a2b3c4d5e6f"))
@click.argument("user", type=AccountParam())
@click.option("--remove", metavar="ID", default=None, help="Remove the device with this id, and list the others.")
@data_option
@json_option
def devices(*, user: UserId, remove: str | None, data: Path | None, as_json: bool) -> None:
    """List the devices of a user, newest first.

    Only the last four characters of an address are shown.
    """
    from notifier.cli.opened_stores import open_stores

    if remove is not None and not DEVICE_ID.fullmatch(remove):
        raise click.UsageError("A device id has 32 hexadecimal digits.")
    with open_stores(settings_for(data)) as stores:
        ports = stores.ports
        registry = DeviceRegistry(devices=ports.devices, directory=ports.directory, log=ports.log, clock=ports.clock)
        member = registry.member(user)
        if remove is not None and not registry.unregister(member, DeviceId(remove)):
            raise NotFound(f"{user} has no device {remove}.")
        registered, is_in_bitmap = registry.list_devices(member), is_in_device_bitmap(ports, member)
    if as_json:
        print_json({"user": user, "devices": [device_json(device) for device in registered], "in_bitmap": is_in_bitmap})
        return
    if registered:
        headings = ("id", "platform", "app", "locale", "time zone", "last four", "registered")
        print_table(
            headings, [[*list(device_json(device).values())[:-1], device.registered_at] for device in registered]
        )
    else:
        print_sentence(f"{user} has no device.")
    if is_in_bitmap is not bool(registered):
        print_sentence(
            f"Fan-out finds {user} {'with' if is_in_bitmap else 'without'} a device: {MISMATCH_REASONS[is_in_bitmap]}."
        )


def is_in_device_bitmap(ports: Ports, member: Member) -> bool:
    bits = read_bitmap(ports.sets, SetKind.WITH_DEVICE, None, shard_of(member))
    return bits is not None and contains(bits, member)


def device_json(device: Device) -> Mapping[str, str | None]:
    from notifier.api.routes.devices import SHOWN_CHARACTERS, shown_app_and_address

    app, address = shown_app_and_address(device.address)
    return {
        "id": device.id,
        "platform": str(device.platform),
        "app": app,
        "locale": device.locale,
        "time_zone": device.time_zone,
        "last_four": address[-SHOWN_CHARACTERS:],
        "registered_at": iso_time(device.registered_at),
    }
