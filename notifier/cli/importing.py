"""`notifier import`: what a platform knows already, from the files that it exports it as."""

import time
from datetime import UTC, datetime
from pathlib import Path

import click

from notifier.cli.checkpoint import Checkpoint
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_facts, print_json, print_sentence
from notifier.cli.verbs import Family, example
from notifier.domain.want import ALWAYS

AT_ONCE = 1 << 18
"""Two seconds of work, and as much as is done again after a kill."""


@click.group(name="import", cls=Family, epilog=example("notifier import followers graph.parquet"))
def importing() -> None:
    """Bring in what a platform knows already."""


@importing.command(
    epilog=example("notifier import followers graph.csv.gz", "zstdcat graph.zst | notifier import followers -")
)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--form",
    type=click.Choice(("csv", "ndjson", "parquet")),
    default=None,
    help="[default: as the file is named; csv of the standard input]",
)
@click.option(
    "--since", type=click.DateTime(), default=None, help="In UTC; they see what opens from then on.  [default: always]"
)
@click.option(
    "--rejects",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="A new file for the rows that can't be taken.  [default: one in the data folder]",
)
@click.option("--at-once", type=click.IntRange(1), default=AT_ONCE, hidden=True, help="Rows that are read at a time.")
@data_option
@json_option
@click.pass_context
def followers(
    ctx: click.Context,
    *,
    file: Path,
    form: str | None,
    since: datetime | None,
    rejects: Path | None,
    at_once: int,
    data: Path | None,
    as_json: bool,
) -> None:
    """Import who follows whom: rows with `follower` and `followed`.

    FILE is CSV, NDJSON or Parquet, as it is or packed with gzip or zstd; - is the standard input. Cut off anywhere, the
    same command goes on where it was; only the standard input begins anew. It adds to what is there, and whatever the
    graph service says of a pair counts more. A running notifier may go on.

    Exit code 1 when some rows couldn't be taken.
    """
    from notifier.cli.folder import prepare
    from notifier.cli.loading import Loading
    from notifier.cli.opening import opened
    from notifier.profiles.imports import form_of

    settings, began = settings_for(data), time.monotonic()
    prepare(settings.data)
    checkpoint = Checkpoint.of(settings.data, file)
    loading = Loading(
        checkpoint=checkpoint,
        form=form or ("csv" if checkpoint.stdin else form_of(file.name)),
        since=ALWAYS if since is None else since.replace(tzinfo=UTC),
        rejects=rejects,
        at_once=at_once,
        quiet=as_json,
    )
    with checkpoint.held(), opened(settings) as store:
        loaded = loading(store.ports, settings)
    facts = {"follows": loaded.follows, "rejected": loaded.rejected, "seconds": round(time.monotonic() - began, 3)}
    if as_json:
        print_json(facts | {"rejects": str(loading.told) if loaded.rejected else None})
    else:
        print_facts(facts)
        if loaded.rejected:
            print_sentence(f"Rows that couldn't be taken, and why: {loading.told}")
    ctx.exit(1 if loaded.rejected else 0)
