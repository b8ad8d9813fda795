"""Runs a fake push provider for a command, and prints its address and its counts."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from errno import EADDRINUSE
from os import strerror
from pathlib import Path
from threading import Event as Signal
from typing import TYPE_CHECKING

import click

from notifier.cli.output import print_json
from notifier.cli.running_service import replace_file
from notifier.config import variable
from notifier.domain.errors import FileUnwritable, NotifierError, PortTaken, UnusableEnvironment
from notifier.domain.ids import Platform

if TYPE_CHECKING:
    from notifier.devkit.fake_providers.behavior import Behavior
    from notifier.devkit.fake_providers.hosting import HostedFake

COUNT_INTERVAL_SECONDS = 0.5
"""Seconds between two updates of the printed counts."""
ACCEPTED_DEVICES: Mapping[Platform, str] = {
    Platform.APNS: "any app's token of 64 to 200 hexadecimal digits",
    Platform.FCM: "registration tokens, installation ids, and fixture-7 of the fixture's u7",
    Platform.WEB: "any endpoint; messages to endpoints of the fixture, like /wpush/v2/fixture-7 of u7, are decrypted",
}
"""Texts, printed at the start, that say which device addresses each fake accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeProviderCommand:
    """A fake provider with the options of the command line."""

    port: int
    script: str
    out: Path | None
    ready_file: Path | None
    certificate: Path | None
    as_json: bool

    def run(self, platform: Platform, stopping: Signal) -> None:
        """Serve until `stopping` is set. Raises UsageError, PortTaken, FileUnwritable or UnusableEnvironment."""
        behavior = parse_behavior(self.script, platform)
        _require_certificate(self.certificate)
        with run_fake(platform, behavior, port=self.port, out=self.out, certificate=self.certificate) as server:
            self._print_start(server)
            try:
                while not stopping.wait(COUNT_INTERVAL_SECONDS):
                    if sys.stdout.isatty() and not self.as_json:
                        click.echo(f"\r\x1b[K{_count_text(server)}", nl=False)
            finally:
                self._print_end(server)

    def _print_start(self, hosted: "HostedFake") -> None:
        start_report = self._start_report(hosted)
        if self.ready_file is not None:
            replace_file(self.ready_file, json.dumps(start_report, indent=2) + "\n")
        if self.as_json:
            print_json(start_report)
        else:
            click.echo(f"A fake of {hosted.platform} listens at {hosted.origin}; Ctrl-C stops it")
            for name in ("setting", "devices", "script", "alerts"):
                click.echo(f"  {name:<7} {start_report[name] or 'none'}")
        sys.stdout.flush()

    def _print_end(self, hosted: "HostedFake") -> None:
        if self.ready_file is not None:
            self.ready_file.unlink(missing_ok=True)
        if self.as_json:
            print_json(
                {
                    "responses": hosted.response_counts,
                    "alerts": hosted.alert_count,
                    "connections": hosted.connection_counts.connections,
                }
            )
        else:
            click.echo(f"\r\x1b[K{_count_text(hosted)}" if sys.stdout.isatty() else _count_text(hosted))

    def _start_report(self, hosted: "HostedFake") -> Mapping[str, str]:
        return {
            "platform": str(hosted.platform),
            "url": hosted.origin,
            "setting": f"{variable('push', hosted.platform, 'fake')}={hosted.origin}",
            "devices": ACCEPTED_DEVICES[hosted.platform],
            "script": self.script,
            "alerts": str(self.out or ""),
        }


def parse_behavior(script: str, platform: Platform) -> "Behavior":
    """Parse the script of a fake. Raises UsageError."""
    from notifier.devkit.fake_providers.behavior import Behavior

    try:
        return Behavior.read(script, platform)
    except ValueError as error:
        raise click.UsageError(f"Invalid script: {error}") from error


@contextmanager
def run_fake(
    platform: Platform, behavior: "Behavior", *, port: int, out: Path | None, certificate: Path | None = None
) -> Iterator["HostedFake"]:
    """Serve a fake while the block lasts. Raises PortTaken, FileUnwritable or UnusableEnvironment."""
    from notifier.devkit.fake_providers.hosting import host_fake

    with ExitStack() as stack:
        try:
            server = stack.enter_context(host_fake(platform, behavior, port=port, out=out, certificate=certificate))
        except OSError as error:
            raise _startup_error(error, port, out) from error
        yield server


def _startup_error(error: OSError, port: int, out: Path | None) -> NotifierError:
    if error.errno == EADDRINUSE:
        return PortTaken(f"The address is 127.0.0.1:{port}.")
    if error.filename is not None:
        return FileUnwritable(f"{out}: {error.strerror}.")
    return UnusableEnvironment(f"Can't listen on 127.0.0.1:{port}: {strerror(error.errno or 0)}.")


def _require_certificate(file: Path | None) -> None:
    from notifier.devkit.http2.server import tls_context

    try:
        if file is not None:
            tls_context(file)
    except OSError as error:
        raise click.UsageError(f"Can't use --certificate {file}: {error.strerror or error}.") from error


def _count_text(hosted: "HostedFake") -> str:
    """Return the counts of responses, most frequent first, and those of alerts and connections."""
    counts = sorted(hosted.response_counts.items(), key=lambda item: -item[1])
    responses = ", ".join(f"{count:,} {response}" for response, count in counts) or "no requests yet"
    return (
        f"{responses}; {hosted.alert_count:,} alerts on devices, {hosted.connection_counts.connections:,} connections"
    )
