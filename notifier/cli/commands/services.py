"""`notifier services`: real Kafka, Cassandra and Valkey on this machine, for trials and tests."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from notifier.cli.data_folder import prepare
from notifier.cli.group import Family, example
from notifier.cli.options import data_option, json_option, settings_for, words_for
from notifier.cli.output import print_json

if TYPE_CHECKING:
    from notifier.devkit.engines.fleet import Fleet


@click.group(cls=Family, epilog=example("notifier services up", "notifier services status", "notifier services down"))
def services() -> None:
    """Run Kafka, Cassandra and Valkey on this machine: `up`, `status`, `down`.

    They go on when the command has ended. For trials and tests: one node of each, listening on the loopback alone.
    """


@services.command(epilog=example("notifier services up", "notifier services up --periodic"))
@click.option(
    "--periodic",
    is_flag=True,
    help="Cassandra acknowledges before its log is on disk, as is usual with three replicas; a kill loses rows.",
)
@data_option
def up(*, periodic: bool, data: Path | None) -> None:
    """Start those that don't run, and wait until they answer. The first time Maven fetches their jars."""
    from notifier.devkit.engines.cassandra import Sync

    fleet, sync = _fleet(data), Sync.PERIODIC if periodic else Sync.BATCH
    prepare(fleet.folder)
    started = fleet.up(sync, lambda one, seconds: click.echo(f"  {one.name:<10} {one.address:<18} {seconds:.1f} s"))
    if not fleet.syncs(sync):
        way = "without" if periodic else "with"
        click.echo(f"Cassandra was started {way} --periodic, and goes on so: stop it first to change that.")
    click.echo(f"{'' if started else 'All of them run already. '}Stop them: {words_for('services down', data)}")


@services.command(epilog=example("notifier services status --json"))
@data_option
@json_option
def status(*, data: Path | None, as_json: bool) -> None:
    """Show which of them run, and where."""
    fleet = _fleet(data)
    found = [(one, fleet.runs(name)) for name, one in fleet.standing().items()]
    if as_json:
        print_json({one.name: {"address": one.address, "pid": one.pid, "runs": runs} for one, runs in found})
        return
    for one, runs in found:
        click.echo(f"  {one.name:<10} {one.address:<18} {f'process {one.pid}' if runs else 'not running'}")
    if not found:
        click.echo(f"None was ever started here. Start them: {words_for('services up', data)}")


@services.command(epilog=example("notifier services down"))
@data_option
def down(*, data: Path | None) -> None:
    """Stop them. What they have stored stays, and `up` finds it again."""
    _fleet(data).down()


def _fleet(data: Path | None) -> "Fleet":
    from notifier.devkit.engines.fleet import Fleet

    settings = settings_for(data)
    return Fleet(folder=settings.data / "services", cache=settings.jars.expanduser())
