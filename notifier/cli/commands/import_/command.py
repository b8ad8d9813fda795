"""`notifier import`: what a platform knows already, from the files that it exports it as."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from notifier import topics
from notifier.cli.commands.import_.loader import Freight
from notifier.cli.group import Family, example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import cell, print_facts, print_json, print_sentence
from notifier.domain.users.import_rows import AccountRow, PreferenceRow
from notifier.domain.users.subject_preferences import ALWAYS
from notifier.flow.imports.followers import Followers
from notifier.flow.imports.importer import AccountImport, PreferenceImport
from notifier.ports.imports import ImportBatch, NumberedFollows, Rows
from notifier.profiles.import_sources import ACCOUNTS, EDGES, PREFERENCES, VIPS

if TYPE_CHECKING:
    from notifier.cli.commands.import_.loader import Freight, Loaded


# What `notifier import` brings in: of each kind of rows what they have in them, and who makes something of them.


def follows(since: datetime) -> Freight[Rows | NumberedFollows]:
    return Freight(
        name="followers",
        layout=EDGES,
        matter=lambda p: Followers(directory=p.directory, follows=p.follows, log=p.log, since=since),
        left="follows",
        stream=topics.FOLLOWS,
        as_read=False,
    )


def accounts(*, ranges: bool) -> Freight[ImportBatch[AccountRow]]:
    return Freight(
        name="users",
        layout=ACCOUNTS,
        matter=lambda p: AccountImport(directory=p.directory, flags=p.flags, log=p.log, ranges=ranges),
        left="shards",
        stream=topics.USERS,
        as_read=True,
    )


def vips() -> Freight[ImportBatch[AccountRow]]:
    return Freight(
        name="vip",
        layout=VIPS,
        matter=lambda p: AccountImport(directory=p.directory, flags=p.flags, log=p.log, ranges=False),
        left="shards",
        stream=topics.USERS,
        as_read=True,
    )


def wishes() -> Freight[ImportBatch[PreferenceRow]]:
    return Freight(
        name="preferences",
        layout=PREFERENCES,
        matter=lambda p: PreferenceImport(
            directory=p.directory, wants=p.wants, overalls=p.overalls, log=p.log, clock=p.clock
        ),
        left="shards",
        stream=topics.FOLLOWS,
        as_read=True,
    )


F = TypeVar("F", bound=Callable[..., Any])

EDGES_AT_ONCE = 1 << 18
"""Two seconds of work, and as much as is done again after a kill."""
ROWS_AT_ONCE = 1 << 16
"""The same of rows that are written as they are read."""


@click.group(name="import", cls=Family, epilog=example("notifier import followers graph.parquet"))
def importing() -> None:
    """Bring in what a platform knows already."""


def of_a_file(at_once: int) -> Callable[[F], F]:
    """What all of them are told: which file, what it is, and where to go with rows that can't be taken."""
    options = (
        click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)),
        click.option(
            "--form",
            type=click.Choice(("csv", "ndjson", "parquet")),
            default=None,
            help="[default: as the file is named; csv of the standard input]",
        ),
        click.option(
            "--rejects",
            type=click.Path(path_type=Path, dir_okay=False),
            default=None,
            help="A new file for the rows that can't be taken.  [default: one in the data folder]",
        ),
        click.option("--at-once", type=click.IntRange(1), default=at_once, hidden=True, help="Rows read at a time."),
        data_option,
        json_option,
    )

    def decorated(verb: F) -> F:
        for option in reversed(options):
            verb = option(verb)
        return verb

    return decorated


@importing.command(
    epilog=example("notifier import followers graph.csv.gz", "zstdcat graph.zst | notifier import followers -")
)
@click.option(
    "--since", type=click.DateTime(), default=None, help="In UTC; they see what opens from then on.  [default: always]"
)
@of_a_file(EDGES_AT_ONCE)
def followers(since: datetime | None, **given: Any) -> None:
    """Import who follows whom: rows with `follower` and `followed`.

    FILE is CSV, NDJSON or Parquet, as it is or packed with gzip or zstd; - is the standard input. Cut off anywhere, the
    same command goes on where it was; only the standard input begins anew. It adds to what is there, and whatever the
    graph service says of a pair counts more. A running notifier may go on.

    Exit code 1 when some rows couldn't be taken.
    """

    moment = ALWAYS if since is None else since.replace(tzinfo=UTC)
    if moment > datetime.now(UTC):
        raise click.BadParameter(f"{since} is to come: nobody would see anything until then.", param_hint="--since")
    _bring(follows(moment), moment.isoformat(), lambda loaded: {"follows": loaded.left}, **given)


@importing.command(epilog=example("notifier import users users.parquet", "notifier import users users.csv --ranges"))
@click.option(
    "--ranges",
    is_flag=True,
    help="Give ids that follow one another (u1, u2, …) one entry together. Only while nothing else gives numbers.",
)
@of_a_file(ROWS_AT_ONCE)
def users(*, ranges: bool, **given: Any) -> None:
    """Import accounts: rows with `user`, and with `verified`, `vip` and `deleted` where they are known.

    FILE is read as by `notifier import followers`. A flag is true, false or, where nothing is known of it, empty;
    whatever the account service says of one counts more. A running notifier may go on.

    Exit code 1 when some rows couldn't be taken.
    """

    _bring(accounts(ranges=ranges), f"{ranges=}", _rows, **given)


@importing.command(epilog=example("notifier import vip vip.csv", "notifier import vip - < vip.csv"))
@of_a_file(ROWS_AT_ONCE)
def vip(**given: Any) -> None:
    """Import VIPs: rows with `user`, each of whom becomes one, unless a column `vip` says false.

    FILE is read as by `notifier import followers`. Whatever the account service says of somebody counts more. A running
    notifier may go on.

    Exit code 1 when some rows couldn't be taken.
    """

    _bring(vips(), "", _rows, **given)


@importing.command(epilog=example("notifier import preferences preferences.ndjson.gz"))
@of_a_file(ROWS_AT_ONCE)
def preferences(**given: Any) -> None:
    """Import what people want: rows with `user`, and with what is known of `account`, `volume`, `muted`, `push`,
    `quiet` and `zone`.

    A row with an account is of that one: its `volume` is default, all, first, digest or off; `muted` is true, or the
    moment until which. A row without is of everything: `volume` is all, first, digest or off; `push` is true or false;
    `quiet` is two local times, 22:00-07:00, in a `zone` of the IANA. What is empty isn't said. A digest begins with the
    import.

    FILE is read as by `notifier import followers`. Whatever a person says, or has said, counts more. A running notifier
    may go on.

    Exit code 1 when some rows couldn't be taken.
    """

    _bring(wishes(), "", _rows, **given)


def _rows(loaded: "Loaded") -> Mapping[str, int]:
    return {"rows": loaded.read}


def _bring(
    freight: "Freight[Any]",
    how: str,
    facts: Callable[["Loaded"], Mapping[str, int]],
    *,
    file: Path,
    form: str | None,
    rejects: Path | None,
    at_once: int,
    data: Path | None,
    as_json: bool,
) -> None:
    from notifier.cli.commands.import_.loader import Checkpoint, ImportRun
    from notifier.cli.context import opened
    from notifier.cli.data_folder import prepare
    from notifier.profiles.import_sources import form_of

    settings, began = settings_for(data), time.monotonic()
    prepare(settings.data)
    checkpoint = Checkpoint.of(settings.data, freight.name, file)
    loading = ImportRun(
        freight=freight,
        checkpoint=checkpoint,
        form=form or ("csv" if checkpoint.stdin else form_of(file.name)),
        how=how,
        rejects=rejects,
        at_once=at_once,
        quiet=as_json,
    )
    with checkpoint.held(), opened(settings) as store:
        loaded = loading(store.ports, settings)
    told = {**facts(loaded), "rejected": loaded.rejected, "seconds": round(time.monotonic() - began, 3)}
    if as_json:
        told_in = str(loading.told) if loaded.rejected else None
        print_json(told | {"ignored": [*loaded.ignored], "rejects": told_in})
    else:
        print_facts(told)
        if loaded.ignored:
            print_sentence(f"Columns that nothing was read of: {', '.join(map(cell, loaded.ignored))}")
        if loaded.rejected:
            print_sentence(f"Rows that couldn't be taken, and why: {loading.told}")
    click.get_current_context().exit(1 if loaded.rejected else 0)
