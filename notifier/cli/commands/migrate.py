"""`notifier migrate`: brings a data folder to the schema of this version."""

from pathlib import Path

import click

from notifier.cli.group import example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_json

PHASES = ("pre", "post")


@click.command(epilog=example("notifier migrate --data ./notifier-data", "notifier migrate --phase pre"))
@click.option(
    "--phase",
    type=click.Choice(PHASES),
    default=None,
    help="pre: before new code starts, while the old serves; post: once no old code runs.  [default: both]",
)
@data_option
@json_option
def migrate(*, phase: str | None, data: Path | None, as_json: bool) -> None:
    """Create the data folder if it isn't there, and bring the stores to this version's schema and topics.

    `notifier up` does it too. What was written by a newer version is refused and left as it is.
    """
    from notifier.cli.data_folder import prepare
    from notifier.profiles import choose

    settings = settings_for(data)
    prepare(settings.data)
    profile = choose(settings)
    try:
        steps = profile.migrate(phase)
    finally:
        profile.close()
    if as_json:
        print_json({"data": str(settings.data), "steps": steps})
    else:
        click.echo(f"{settings.data} is up to date; steps taken: {steps}.")
