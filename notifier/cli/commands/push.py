"""`notifier push`: alerts as such; `test` sends one to a person's devices, and tells what became of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import click

from notifier.cli.commands.devices import facts
from notifier.cli.group import Family, example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import maybe_stamp, print_json, print_sentence, print_table, stamp
from notifier.domain.ids import Platform, UserId
from notifier.domain.push.alert import Alert, trial
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt, Unknown
from notifier.flow.devices.registry import PhoneBook
from notifier.ports.push import Provider

TEXT = "notifier can reach this device"
LONGEST = 1_000
"""Characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Became:
    """Of the alert at one device."""

    device: Device
    receipt: Receipt

    @property
    def outcome(self) -> str:
        match self.receipt:
            case Accepted():
                return "accepted"
            case DropToken():
                return "dropped"
            case RetryAt():
                return "retry"
            case PayloadError():
                return "our_mistake"
            case ConfigError():
                return "not_configured"
            case Unknown():
                return "unknown"
            case _:
                assert_never(self.receipt)

    @property
    def words(self) -> str:
        match self.receipt:
            case Accepted():
                return "accepted"
            case DropToken(reason=reason):
                return f"would be dropped: {reason}"
            case RetryAt(at=at, reason=reason):
                return f"retry at {stamp(at)}: {reason}"
            case PayloadError(reason=reason):
                return f"our mistake: {reason}"
            case ConfigError(reason=reason):
                return f"not configured: {reason}"
            case Unknown(reason=reason):
                return f"unknown: {reason}"
            case _:
                assert_never(self.receipt)

    @property
    def json(self) -> Mapping[str, str | None]:
        receipt = self.receipt
        at = receipt.at if isinstance(receipt, DropToken | RetryAt) else None
        reason = None if isinstance(receipt, Accepted) else receipt.reason
        return {**facts(self.device), "outcome": self.outcome, "reason": reason, "at": maybe_stamp(at)}


@click.group(cls=Family, epilog=example("notifier push test --user u1"))
def push() -> None:
    """Try alerts on phones: `test`."""


@push.command(epilog=example("notifier push test --user u1", 'notifier push test --user u1 --text "Is it you?" --json'))
@click.option("--user", required=True, help="Whose devices.")
@click.option("--text", default=TEXT, show_default=True, help="What they show.")
@data_option
@json_option
@click.pass_context
def test(ctx: click.Context, *, user: str, text: str, data: Path | None, as_json: bool) -> None:
    """Send one alert to all of a person's devices now, and tell what became of it at each; 1 unless all took it.

    It goes the way of every alert, with its credentials or to its fakes. It counts for no limit, and drops no device.
    """
    from notifier.cli.context import opened

    if not text.strip() or len(text) > LONGEST:
        raise click.UsageError(f"--text has 1 to {LONGEST} characters.")
    with opened(settings_for(data)) as folder:
        ports = folder.ports
        book = PhoneBook(devices=ports.devices, directory=ports.directory, log=ports.log, clock=ports.clock)
        who = UserId(user.removeprefix("@"))
        found = book.of(book.member(who))
        alert = trial(who, text, now=ports.clock.now(), nonce=ports.nonces.new())
        became = list(sent(alert, found, ports.providers))
    if as_json:
        print_json({"user": who, "text": text, "devices": [one.json for one in became]})
    elif became:
        print_table(("id", "platform", "app", "last four", "what became of it"), [_row(one) for one in became])
    else:
        print_sentence(f"{who} has no device; apps register theirs at /v1/devices.")
    if not became or not all(isinstance(one.receipt, Accepted) for one in became):
        ctx.exit(1)


def sent(alert: Alert, devices: Sequence[Device], providers: Mapping[Platform, Provider]) -> Iterator[Became]:
    """Each device once, platform by platform."""
    for platform, provider in providers.items():
        mine = [device for device in devices if device.platform is platform]
        for device, receipt in provider.send(alert, mine):
            yield Became(device=device, receipt=receipt)


def _row(one: Became) -> Sequence[object]:
    device = facts(one.device)
    return [device["id"], device["platform"], device["app"], device["last_four"], one.words]
