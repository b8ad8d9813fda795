"""Command `notifier fake`: runs local fakes of the push providers."""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Signal
from typing import TYPE_CHECKING, Any

import click

from notifier.cli.command_groups_and_errors import CommandGroup, example
from notifier.cli.commands.roles import heartbeat_sender, parent_option, readiness_reporter, set_up_role, stop_signal
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_json
from notifier.cli.running_service import replace_file
from notifier.cli.supervisor.fake_providers import parse_behavior, run_fake
from notifier.config import variable
from notifier.domain.errors import UnusableEnvironment
from notifier.domain.ids import Platform

if TYPE_CHECKING:
    from notifier.devkit.fake_providers.hosting import HostedFake

COUNT_INTERVAL_SECONDS = 0.5
"""Seconds between two updates of the printed counts."""
ACCEPTED_DEVICES: Mapping[Platform, str] = {
    Platform.APNS: "any app's token of 64 to 200 hexadecimal digits",
    Platform.FCM: "registration tokens, installation ids, and fixture-7 of the fixture's u7",
    Platform.WEB: "any endpoint; messages to endpoints of the fixture, like /wpush/v2/fixture-7 of u7, are decrypted",
}
"""Device addresses that each fake accepts, as text."""
FAKES_ROLE = "fakes"
"""Role of `up` that runs all fakes."""
HEARTBEAT_INTERVAL_SECONDS = 1.0
SCRIPT_HELP = (
    "Misbehavior of the fake, options separated by commas: gone=2% (devices whose app is uninstalled), elsewhere=1%"
    " (devices of another environment, project or key), limited=30s (429 for this time), down=30s (503), stall or"
    " stall=30s (no responses), after=10s (start of limited, down or stall), latency=50ms (of each response),"
    " streams=1 (concurrent requests per connection), goaway=1000 (requests after which a connection sends GOAWAY),"
    " cut=500 (requests after which a connection breaks), seed=7 (selects the devices of gone and elsewhere)."
)
_PORT = click.IntRange(0, 65535)
_FILE = click.Path(path_type=Path, dir_okay=False)
_CERTIFICATE = click.Path(path_type=Path, dir_okay=False, exists=True)

_script = click.option("--script", default="", metavar="SCRIPT", help=SCRIPT_HELP)


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that `apns`, `fcm` and `webpush` share."""
    for option in (
        json_option,
        click.option(
            "--certificate",
            type=_CERTIFICATE,
            metavar="FILE",
            help="Use TLS with this certificate and its key, in PEM.",
        ),
        click.option("--ready-file", type=_FILE, metavar="FILE", help="Also write the address to this file, as JSON."),
        click.option(
            "--out", type=_FILE, metavar="FILE", help="Append a line to this file for each alert that arrives."
        ),
        _script,
        click.option(
            "--port", type=_PORT, default=0, show_default=True, help="Port to listen on; 0 takes any free port."
        ),
    ):
        command = option(command)
    return command


@click.group(cls=CommandGroup, epilog=example("notifier fake apns --script gone=2% --out alerts.ndjson"))
def fake() -> None:
    """Run a fake of a push provider until Ctrl-C: `apns`, `fcm` or `webpush`.

    It listens only on the loopback interface, responds as the provider documents, and accepts well-known test
    credentials. A notifier uses these credentials if its settings contain the address of the fake and
    NOTIFIER_PUSH_FAKES sends the alerts to fakes. By default `notifier up` runs a fake of its own for each provider
    without credentials.
    """


@fake.command(epilog=example("notifier fake apns --port 9001 --script gone=2%,goaway=1000 --out alerts.ndjson"))
@_options
def apns(**options: Any) -> None:
    """Run a fake of Apple's push servers."""
    _run_fake(Platform.APNS, options)


@fake.command(epilog=example("notifier fake fcm --port 9002 --script limited=30s,after=10s"))
@_options
def fcm(**options: Any) -> None:
    """Run a fake of Google's push server, and of the server that issues access tokens."""
    _run_fake(Platform.FCM, options)


@fake.command(epilog=example("notifier fake webpush --port 9003 --script latency=50ms"))
@_options
def webpush(**options: Any) -> None:
    """Run a fake of all push services of browsers."""
    _run_fake(Platform.WEB, options)


def _run_fake(platform: Platform, options: dict[str, Any]) -> None:
    with stop_signal() as stopping:
        FakeProviderCommand(**options).run(platform, stopping)


@fake.command(name="all", hidden=True, epilog=example("notifier fake all --apns 9001 --fcm 9002 --web 9003"))
@click.option("--apns", type=_PORT, default=None, help="Port of the APNs fake.")
@click.option("--fcm", type=_PORT, default=None, help="Port of the FCM fake.")
@click.option("--web", type=_PORT, default=None, help="Port of the Web Push fake.")
@_script
@parent_option
@data_option
def all_fakes(*, script: str, parent: int | None, data: Path | None, **ports: int | None) -> None:
    """Run the fakes of `notifier up` in one process.

    Runs a fake for each port that is given. Alerts are added to alerts.ndjson in the data folder.
    """
    settings = set_up_role(FAKES_ROLE, settings_for(data), parent)
    beat, out = heartbeat_sender(FAKES_ROLE, settings, parent), settings.data / "alerts.ndjson"
    with stop_signal() as stopping, ExitStack() as stack:
        fakes = [
            stack.enter_context(run_fake(platform, parse_behavior(script, platform), port=port, out=out))
            for platform in Platform
            if (port := ports[platform]) is not None
        ]
        readiness_reporter(FAKES_ROLE, settings, beat)()
        while not stopping.wait(HEARTBEAT_INTERVAL_SECONDS):
            if not all(fake_provider.server.is_serving for fake_provider in fakes):
                raise UnusableEnvironment("A fake has stopped serving.")
            beat()


# A fake in the foreground.


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


def _require_certificate(file: Path | None) -> None:
    from notifier.devkit.http2.server import tls_context

    try:
        if file is not None:
            tls_context(file)
    except OSError as error:
        raise click.UsageError(f"Can't use --certificate {file}: {error.strerror or error}.") from error


def _count_text(hosted: "HostedFake") -> str:
    counts = sorted(hosted.response_counts.items(), key=lambda item: -item[1])
    responses = ", ".join(f"{count:,} {response}" for response, count in counts) or "no requests yet"
    return (
        f"{responses}; {hosted.alert_count:,} alerts on devices, {hosted.connection_counts.connections:,} connections"
    )
