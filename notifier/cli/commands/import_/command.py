"""Command `notifier import`: imports existing data of a platform from exported files."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from notifier.cli.command_groups_and_errors import CommandGroup, example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import cell, print_fields, print_json, print_sentence
from notifier.domain.users.subject_preferences import ALWAYS

if TYPE_CHECKING:
    from notifier.cli.commands.import_.loader import ImportCounts, ImportDataset


F = TypeVar("F", bound=Callable[..., Any])

FOLLOWS_PER_BATCH = 1 << 18
"""Follows per batch: two seconds of work. After a kill at most one batch is repeated."""
ROWS_PER_BATCH = 1 << 16
"""Rows per batch of the other datasets, which are written while they are read."""


@click.group(name="import", cls=CommandGroup, epilog=example("notifier import followers graph.parquet"))
def importing() -> None:
    """Import existing followers, accounts, VIPs and preferences from files."""


def file_options(rows_per_batch: int) -> Callable[[F], F]:
    """Add the argument and the options that all imports share."""
    options = (
        click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)),
        click.option(
            "--form",
            type=click.Choice(("csv", "ndjson", "parquet")),
            default=None,
            help="Format of the file.  [default: by the file name; csv for the standard input]",
        ),
        click.option(
            "--rejects",
            type=click.Path(path_type=Path, dir_okay=False),
            default=None,
            help="New file for rejected rows.  [default: one in the data folder]",
        ),
        click.option(
            "--at-once",
            "rows_per_batch",
            type=click.IntRange(1),
            default=rows_per_batch,
            hidden=True,
            help="Rows per batch.",
        ),
        data_option,
        json_option,
    )

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@importing.command(
    epilog=example("notifier import followers graph.csv.gz", "zstdcat graph.zst | notifier import followers -")
)
@click.option(
    "--since",
    type=click.DateTime(),
    default=None,
    metavar="TIME",
    help="Time in UTC, like 2026-01-05 or 2026-01-05T12:00:00. Followers see bursts that open from then on.  "
    "[default: they see all bursts]",
)
@file_options(FOLLOWS_PER_BATCH)
def followers(since: datetime | None, **options: Any) -> None:
    """Import follows: rows with `follower` and `followed`.

    FILE is CSV, NDJSON or Parquet, plain or compressed with gzip or zstd; - is the standard input. After an
    interruption the same command resumes where it stopped, but from the standard input it starts again. The import only
    adds follows, and updates of the graph service take precedence. A notifier may be running on the data folder.

    Exit code 1 if some rows were rejected.
    """
    from notifier.cli.commands.import_.loader import follow_dataset

    visible_from = ALWAYS if since is None else since.replace(tzinfo=UTC)
    if visible_from > datetime.now(UTC):
        raise click.BadParameter(
            f"{since} is in the future: followers would see nothing until then.", param_hint="--since"
        )
    _run_import(
        follow_dataset(visible_from),
        visible_from.isoformat(),
        lambda counts: {"follows": counts.spilled_count},
        **options,
    )


@importing.command(epilog=example("notifier import users users.parquet", "notifier import users users.csv --ranges"))
@click.option(
    "--ranges",
    is_flag=True,
    help="Store consecutive ids (u1, u2, …) as one entry. Use only while no other process assigns member numbers.",
)
@file_options(ROWS_PER_BATCH)
def users(*, ranges: bool, **options: Any) -> None:
    """Import accounts: rows with `user`, and optionally flags.

    The flags are `verified`, `vip` and `deleted`. A flag is true, false, or empty if it is unknown; updates of the
    account service take precedence. FILE has the same formats as in `notifier import followers`. A notifier may be
    running on the data folder, unless `--ranges` is given.

    Exit code 1 if some rows were rejected.
    """
    from notifier.cli.commands.import_.loader import account_dataset

    _run_import(account_dataset(ranges=ranges), f"{ranges=}", _row_count, **options)


@importing.command(epilog=example("notifier import vip vip.csv", "notifier import vip - < vip.csv"))
@file_options(ROWS_PER_BATCH)
def vip(**options: Any) -> None:
    """Import VIPs: rows with `user`, and optionally `vip`.

    Every user becomes a VIP, unless `vip` is false. Updates of the account service take precedence. FILE has the same
    formats as in `notifier import followers`. A notifier may be running on the data folder.

    Exit code 1 if some rows were rejected.
    """
    from notifier.cli.commands.import_.loader import vip_dataset

    _run_import(vip_dataset(), "", _row_count, **options)


@importing.command(epilog=example("notifier import preferences preferences.ndjson.gz"))
@file_options(ROWS_PER_BATCH)
def preferences(**options: Any) -> None:
    """Import the notification preferences of users, one setting or more per row.

    Rows have `user`, and optionally `account`, `volume`, `muted`, `push`, `quiet` and `zone`. An empty column sets
    nothing.

    A row with an account sets the preferences for that account: `volume` is default, all, first, digest or off; `muted`
    is true, or the time when the mute ends. A row without one sets account-wide preferences: `volume` is all, first,
    digest or off; `push` is true or false; `quiet` is two local times, 22:00-07:00, in `zone`, an IANA time zone. The
    first digest gathers bursts from the time of the import on.

    FILE has the same formats as in `notifier import followers`. Settings that users make themselves, earlier or later,
    take precedence. A notifier may be running on the data folder.

    Exit code 1 if some rows were rejected.
    """
    from notifier.cli.commands.import_.loader import preference_dataset

    _run_import(preference_dataset(), "", _row_count, **options)


def _row_count(counts: "ImportCounts") -> Mapping[str, int]:
    return {"rows": counts.row_count}


def _run_import(
    dataset: "ImportDataset[Any]",
    row_options: str,
    shown_counts: Callable[["ImportCounts"], Mapping[str, int]],
    *,
    file: Path,
    form: str | None,
    rejects: Path | None,
    rows_per_batch: int,
    data: Path | None,
    as_json: bool,
) -> None:
    from notifier.cli.commands.import_.loader import ImportCheckpoint, ImportRun
    from notifier.cli.data_folder_setup import prepare_data_folder
    from notifier.cli.opened_stores import open_stores
    from notifier.profiles.import_sources import form_of

    settings, started = settings_for(data), time.monotonic()
    prepare_data_folder(settings.data)
    checkpoint = ImportCheckpoint.of(settings.data, dataset.name, file)
    run = ImportRun(
        dataset=dataset,
        checkpoint=checkpoint,
        form=form or ("csv" if checkpoint.is_stdin else form_of(file.name)),
        row_options=row_options,
        rejects=rejects,
        rows_per_batch=rows_per_batch,
        quiet=as_json,
    )
    with checkpoint.locked(), open_stores(settings) as stores:
        counts = run(stores.ports, settings)
    summary = {
        **shown_counts(counts),
        "rejected": counts.rejected_count,
        "seconds": round(time.monotonic() - started, 3),
    }
    if as_json:
        rejects_file = str(run.rejects_file) if counts.rejected_count else None
        print_json(summary | {"ignored": [*counts.ignored_columns], "rejects": rejects_file})
    else:
        print_fields(summary)
        if counts.ignored_columns:
            print_sentence(f"Ignored columns: {', '.join(map(cell, counts.ignored_columns))}")
        if counts.rejected_count:
            print_sentence(f"Rejected rows, with reasons: {run.rejects_file}")
    click.get_current_context().exit(1 if counts.rejected_count else 0)
