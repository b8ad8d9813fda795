"""Command `notifier deadletters`: lists dead letters, and shows and resumes stopped lanes."""

from pathlib import Path

import click
from click.core import ParameterSource

from notifier.cli.command_groups_and_errors import CommandGroup, example
from notifier.cli.commands.throttle import operator_option
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import iso_time, print_fields, print_json, print_sentence, print_table
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit, DeadLetterTally, LaneStop, deaths_in_window
from notifier.topics import PROCESSING_LANES


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    epilog=example(
        "notifier deadletters --limit 5",
        "notifier deadletters lanes",
        'notifier deadletters resume mentions --reason "release 42 reads the new field"',
    ),
)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of dead letters.")
@data_option
@json_option
@click.pass_context
def deadletters(ctx: click.Context, /, *, limit: int, data: Path | None, as_json: bool) -> None:
    """List the newest dead letters, each with its cause.

    Dead letters are records and slices that could not be processed. A lane stops at the first failure beyond its
    dead-letter limit. `lanes` shows which lanes are stopped, and `resume` resumes a lane.
    """
    if ctx.invoked_subcommand is None:
        list_letters(limit=limit, data=data, as_json=as_json)
    elif any(ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ctx.params):
        # The subcommands have their own options. If --data were ignored here, they would use another folder.
        raise click.UsageError(f"Put the options after {ctx.invoked_subcommand}")


def list_letters(*, limit: int, data: Path | None, as_json: bool) -> None:
    from notifier.cli.opened_stores import open_stores

    with open_stores(settings_for(data)) as stores:
        letters = stores.ports.dead_letters.list(limit)
    if as_json:
        print_json(
            [
                {
                    "id": letter.id,
                    "stage": letter.stage,
                    "cause": letter.cause,
                    "at": iso_time(letter.at),
                    "body": letter.body.hex(),
                }
                for letter in letters
            ]
        )
    elif not letters:
        click.echo("There are no dead letters.")
    else:
        print_table(
            ("at", "stage", "id", "cause"), [(letter.at, letter.stage, letter.id, letter.cause) for letter in letters]
        )


@deadletters.command(epilog=example("notifier deadletters lanes", "notifier deadletters lanes --json"))
@data_option
@json_option
def lanes(data: Path | None, as_json: bool) -> None:
    """Count the recent dead letters of each lane, and show which lanes are stopped.

    A lane is one stream of the log, or one pool of slices.
    """
    from notifier.cli.opened_stores import open_stores

    settings = settings_for(data)
    with open_stores(settings) as stores:
        tallies = stores.ports.lane_tallies.read(PROCESSING_LANES)
    states = [lane_json(tallies[lane], settings.dead_letters.limit) for lane in PROCESSING_LANES]
    if as_json:
        print_json(states)
    else:
        headings = ("lane", "state", "in_a_row", "in_window", "since", "reason", "record", "cause")
        print_table(headings, [[state[heading] for heading in headings] for state in states])


@deadletters.command(
    epilog=example('notifier deadletters resume mentions --reason "release 42 reads the new field"'),
)
@click.argument("lane", type=click.Choice(PROCESSING_LANES), metavar="LANE")
@click.option("--reason", required=True, help="Reason for resuming the lane, kept in the audit log.")
@operator_option
@data_option
@json_option
def resume(*, lane: str, reason: str, operator: str, data: Path | None, as_json: bool) -> None:
    """Resume a lane that its dead-letter limit has stopped. The counts of the lane start at zero.

    LANE is a name that `notifier deadletters lanes` shows. The record or slice that stopped the lane is retried first.
    If the lane isn't stopped, nothing changes.
    """
    from notifier.cli.opened_stores import open_stores

    if not reason.strip():
        raise click.UsageError("--reason must not be empty")
    with open_stores(settings_for(data)) as stores:
        stop = stores.ports.lane_tallies.resume(lane, operator, reason, stores.ports.clock.now())
    if as_json:
        print_json({"lane": lane, "resumed": stop is not None, **stop_json(stop)})
    elif stop is None:
        print_sentence(f"Lane {lane} is not stopped.")
    else:
        print_sentence(f"Lane {lane} resumes within a second.")
        print_fields(stop_json(stop))


def lane_json(tally: DeadLetterTally, limit: DeadLetterLimit) -> dict[str, object]:
    return {
        "lane": tally.lane,
        "state": "running" if tally.stop is None else "stopped",
        "in_a_row": tally.in_a_row,
        "in_window": deaths_in_window(tally, limit),
        **stop_json(tally.stop),
    }


def stop_json(stop: LaneStop | None) -> dict[str, object]:
    if stop is None:
        return dict.fromkeys(("since", "limit", "reason", "record", "cause", "stopped_by"))
    return {
        "since": iso_time(stop.at),
        "limit": str(stop.kind),
        "reason": stop.reason,
        "record": stop.record,
        "cause": stop.cause,
        "stopped_by": stop.stopped_by,
    }
