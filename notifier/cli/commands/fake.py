"""Command `notifier fake`: runs local fakes of the push providers."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from notifier.cli.commands.roles import heartbeat_sender, parent_option, readiness_reporter, set_up_role, stop_signal
from notifier.cli.group import CommandGroup, example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.supervisor.fake_provider import FakeProviderCommand, parse_behavior, run_fake
from notifier.domain.errors import UnusableEnvironment
from notifier.domain.ids import Platform

FAKES_ROLE = "fakes"
"""Role of `up` that runs all fakes."""
HEARTBEAT_INTERVAL_SECONDS = 1.0
"""Seconds between two heartbeats. Before each one, the fakes are checked."""
SCRIPT_HELP = (
    "Misbehavior of the fake, options separated by commas: gone=2% (devices whose app is uninstalled), elsewhere=1%"
    " (devices of another environment, project or key), limited=30s (429 for this time), down=30s (503), stall or"
    " stall=30s (no responses), after=10s (start of limited, down or stall), latency=50ms (of each response),"
    " streams=1 (concurrent requests per connection), goaway=1000 / cut=500 (requests after which a connection says"
    " GOAWAY / breaks), seed=7 (selects the devices of gone and elsewhere)."
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
    NOTIFIER_PUSH_FAKES sends the alerts to fakes. `notifier up` runs a fake of its own for each provider without
    credentials.
    """


@fake.command(epilog=example("notifier fake apns --port 9001 --script gone=2%,goaway=1000 --out alerts.ndjson"))
@_options
def apns(**options: Any) -> None:
    """Run a fake of Apple's push servers."""
    _run_fake(Platform.APNS, options)


@fake.command(epilog=example("notifier fake fcm --port 9002 --script limited=30s,after=10s"))
@_options
def fcm(**options: Any) -> None:
    """Run a fake of Google's push server, and of the one that issues access tokens."""
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
