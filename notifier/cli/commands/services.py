"""Command `notifier services`: runs Kafka, Cassandra and Valkey on this machine, for tests."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from notifier.cli.command_groups_and_errors import CommandGroup, example
from notifier.cli.data_folder_setup import prepare_data_folder
from notifier.cli.options import command_line_for, data_option, json_option, settings_for
from notifier.cli.output import print_json

if TYPE_CHECKING:
    from notifier.devkit.engines.fleet import Fleet


@click.group(
    cls=CommandGroup, epilog=example("notifier services up", "notifier services status", "notifier services down")
)
def services() -> None:
    """Run Kafka, Cassandra and Valkey on this machine: `up`, `status`, `down`.

    The services keep running after the command has ended. They are for trials and tests: one node each, which listens
    only on the loopback interface.
    """


@services.command(epilog=example("notifier services up", "notifier services up --periodic"))
@click.option(
    "--periodic",
    is_flag=True,
    help="Let Cassandra acknowledge writes before its log is on disk, as is usual with three "
    "replicas. With one node, a kill may then lose rows.",
)
@data_option
def up(*, periodic: bool, data: Path | None) -> None:
    """Start the services that are not running, and wait until they listen.

    The first time, Maven downloads the jars of Kafka and Cassandra.
    """
    from notifier.devkit.engines.cassandra import Sync

    fleet, sync = _fleet(data), Sync.PERIODIC if periodic else Sync.BATCH
    prepare_data_folder(fleet.folder)
    started = fleet.up(
        sync, lambda engine, seconds: click.echo(f"  {engine.name:<10} {engine.address:<18} {seconds:.1f} s")
    )
    if not fleet.uses_sync(sync):
        mode = "without" if periodic else "with"
        click.echo(f"Cassandra was started {mode} --periodic; stop it first to change that.")
    click.echo(
        f"{'' if started else 'All services are already running. '}"
        f"Stop them with: {command_line_for('services down', data)}"
    )


@services.command(epilog=example("notifier services status --json"))
@data_option
@json_option
def status(*, data: Path | None, as_json: bool) -> None:
    """Show which services are running, and their addresses."""
    fleet = _fleet(data)
    engines = [(engine, fleet.is_running(name)) for name, engine in fleet.records().items()]
    if as_json:
        print_json(
            {
                engine.name: {"address": engine.address, "pid": engine.pid, "running": is_running}
                for engine, is_running in engines
            }
        )
        return
    for engine, is_running in engines:
        state = f"process {engine.pid}" if is_running else "not running"
        click.echo(f"  {engine.name:<10} {engine.address:<18} {state}")
    if not engines:
        click.echo(
            f"No service was ever started in this folder. Start them with: {command_line_for('services up', data)}"
        )


@services.command(epilog=example("notifier services down"))
@data_option
def down(*, data: Path | None) -> None:
    """Stop the services. The next `up` finds the data of Kafka and Cassandra again; Valkey starts empty."""
    _fleet(data).down()


def _fleet(data: Path | None) -> "Fleet":
    from notifier.devkit.engines.fleet import Fleet

    settings = settings_for(data)
    return Fleet(folder=settings.data / "services", cache=settings.jars.expanduser())
