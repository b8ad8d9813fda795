"""`notifier deadletters`: what could never be processed, and why."""

from pathlib import Path

import click

from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_json, print_table, stamp
from notifier.cli.verbs import example


@click.command(epilog=example("notifier deadletters --limit 5"))
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many letters.")
@data_option
@json_option
def deadletters(limit: int, data: Path | None, as_json: bool) -> None:
    """List the newest dead letters: records and slices that could never be processed, each with its cause."""
    from notifier.cli.opening import opened

    with opened(settings_for(data)) as folder:
        found = folder.ports.dead_letters.list(limit)
    if as_json:
        print_json(
            [
                {"id": each.id, "stage": each.stage, "cause": each.cause, "at": stamp(each.at), "body": each.body.hex()}
                for each in found
            ]
        )
    elif not found:
        click.echo("There are no dead letters.")
    else:
        print_table(("at", "stage", "id", "cause"), [(each.at, each.stage, each.id, each.cause) for each in found])
