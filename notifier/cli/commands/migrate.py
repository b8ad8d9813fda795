"""Command `notifier migrate`: migrates the stores to the schema and topics of this version."""

from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_json

PHASES = ("pre", "post")


@click.command(epilog=example("notifier migrate --data ./notifier-data", "notifier migrate --phase pre"))
@click.option(
    "--phase",
    type=click.Choice(PHASES),
    default=None,
    help="pre: run it before new code starts; old code may still run. post: run it once no old code runs. Give a phase "
    "if a service is running.  [default: both]",
)
@data_option
@json_option
def migrate(*, phase: str | None, data: Path | None, as_json: bool) -> None:
    """Migrate the stores to the schema and topics of this version.

    Creates the data folder if it doesn't exist. `notifier up` migrates too. Data of a newer version is refused and not
    changed.
    """
    from notifier.cli.data_folder_setup import prepare_data_folder
    from notifier.profiles import choose

    settings = settings_for(data)
    prepare_data_folder(settings.data)
    profile = choose(settings)
    try:
        steps = profile.migrate(phase)
    finally:
        profile.close()
    if as_json:
        print_json({"data": str(settings.data), "steps": steps})
    else:
        click.echo(f"{settings.data} is up to date; steps applied: {steps}.")
