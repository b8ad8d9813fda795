"""Command `notifier push test`: sends an alert to a user's devices and shows the results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import click

from notifier.cli.command_groups_and_errors import CommandGroup, example
from notifier.cli.commands.devices import device_json
from notifier.cli.options import AccountParam, data_option, json_option, settings_for
from notifier.cli.output import iso_time, iso_time_or_none, print_json, print_sentence, print_table
from notifier.domain.ids import Platform, UserId
from notifier.domain.push.alert import Alert, build_test_alert
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt, Unknown
from notifier.flow.devices.device_registry import DeviceRegistry
from notifier.ports.push import Provider

DEFAULT_TEXT = "notifier can reach this device"
MAX_TEXT_LENGTH = 1_000
"""Maximum length of the text in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """Result of the test alert to one device."""

    device: Device
    receipt: Receipt

    @property
    def outcome(self) -> str:
        match self.receipt:
            case Accepted():
                return "accepted"
            case DropDevice():
                return "dropped"
            case RetryAt():
                return "retry"
            case PayloadError():
                return "payload_error"
            case ConfigError():
                return "config_error"
            case Unknown():
                return "unknown"
            case _:
                assert_never(self.receipt)

    @property
    def description(self) -> str:
        match self.receipt:
            case Accepted():
                return "accepted"
            case DropDevice(reason=reason):
                return f"would be dropped: {reason}"
            case RetryAt(at=at, reason=reason):
                return f"retry at {iso_time(at)}: {reason}"
            case PayloadError(reason=reason):
                return f"invalid payload: {reason}"
            case ConfigError(reason=reason):
                return f"not configured: {reason}"
            case Unknown(reason=reason):
                return f"unknown: {reason}"
            case _:
                assert_never(self.receipt)

    @property
    def json(self) -> Mapping[str, str | None]:
        receipt = self.receipt
        at = receipt.at if isinstance(receipt, DropDevice | RetryAt) else None
        reason = None if isinstance(receipt, Accepted) else receipt.reason
        return {**device_json(self.device), "outcome": self.outcome, "reason": reason, "at": iso_time_or_none(at)}


@click.group(cls=CommandGroup, epilog=example("notifier push test --user u1"))
def push() -> None:
    """Send a test alert to a user's devices."""


@push.command(epilog=example("notifier push test --user u1", 'notifier push test --user u1 --text "Is it you?" --json'))
@click.option("--user", type=AccountParam(), required=True, help="User whose devices get the alert.")
@click.option("--text", default=DEFAULT_TEXT, show_default=True, help="Text of the alert.")
@data_option
@json_option
@click.pass_context
def test(ctx: click.Context, *, user: UserId, text: str, data: Path | None, as_json: bool) -> None:
    """Send a test alert to all devices of a user, and show each result.

    The alert is sent with the same credentials or fakes as other alerts. It doesn't count toward a frequency cap, and
    no device is removed.

    Exit code 1 if the user has no device, or if any device did not accept the alert.
    """
    from notifier.cli.opened_stores import open_stores

    if not text.strip() or len(text) > MAX_TEXT_LENGTH:
        raise click.UsageError(f"--text must have 1 to {MAX_TEXT_LENGTH} characters.")
    with open_stores(settings_for(data)) as stores:
        ports = stores.ports
        registry = DeviceRegistry(devices=ports.devices, directory=ports.directory, log=ports.log, clock=ports.clock)
        registered = registry.list_devices(registry.member(user))
        alert = build_test_alert(user, text, now=ports.clock.now(), nonce=ports.nonces.new())
        results = list(send_to_each(alert, registered, ports.providers))
    if as_json:
        print_json({"user": user, "text": text, "devices": [result.json for result in results]})
    elif results:
        print_table(("id", "platform", "app", "last four", "result"), [_table_row(result) for result in results])
    else:
        print_sentence(f"{user} has no device; apps register devices at /v1/devices.")
    if not results or not all(isinstance(result.receipt, Accepted) for result in results):
        ctx.exit(1)


def send_to_each(
    alert: Alert, devices: Sequence[Device], providers: Mapping[Platform, Provider]
) -> Iterator[TestResult]:
    """Send the alert once to each device, and yield the results, platform by platform."""
    for platform, provider in providers.items():
        targets = [device for device in devices if device.platform is platform]
        for device, receipt in provider.send(alert, targets):
            yield TestResult(device=device, receipt=receipt)


def _table_row(result: TestResult) -> Sequence[object]:
    device = device_json(result.device)
    return [device["id"], device["platform"], device["app"], device["last_four"], result.description]
