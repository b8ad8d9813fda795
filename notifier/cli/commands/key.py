"""`notifier key`: who else may bring events or look on; each service with a key and scopes of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from notifier.cli.group import Family, example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_facts, print_json, print_sentence, print_table, stamp
from notifier.domain.errors import NotFound

if TYPE_CHECKING:
    from notifier.api.auth.service_keys import KeyBook, ServiceKey

SCOPES = ("events", "follows", "accounts", "activity", "operate", "read-metrics")
"""Of `notifier.api.auth.scopes`, which the help needn't wait for; a test compares."""


@click.group(cls=Family, epilog=example("notifier key list"))
def key() -> None:
    """Give services keys of their own, each with what it may do, and take them back.

    A process that runs knows of it within a second. To change a service's key add another of the same name, give it to
    the service, and remove the old one by its id.
    """


@key.command(epilog=example("notifier key add graph --scope follows", "notifier key add grafana --scope read-metrics"))
@click.argument("name")
@click.option(
    "--scope", "scopes", type=click.Choice(SCOPES), multiple=True, required=True, help="What for; may be repeated."
)
@data_option
@json_option
def add(name: str, scopes: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Make a key and print it: this once, for only its hash is kept."""
    from datetime import UTC, datetime

    from notifier.api.auth.scopes import Scope
    from notifier.api.auth.service_keys import is_name, made

    if not is_name(name):
        raise click.UsageError(f"{name!r} is no name: small letters, digits, dots, dashes and underscores, at most 64.")
    book = _book(data)
    text, kept = made(name, {Scope(scope) for scope in scopes}, book.pepper, datetime.now(UTC))
    with book.changed() as keys:
        keys.append(kept)
    if as_json:
        print_json({**facts(kept), "key": text})
    else:
        click.echo(text)


@key.command("list", epilog=example("notifier key list"))
@data_option
@json_option
def list_keys(data: Path | None, as_json: bool) -> None:
    """List the keys, oldest first; what they are is not kept."""
    keys = _book(data).read()
    if as_json:
        print_json([facts(each) for each in keys])
    elif not keys:
        print_sentence("There are no keys but the one of secret.json, which has all scopes.")
    else:
        rows = [(each.id, each.name, " ".join(each.scopes), each.made_at) for each in keys]
        print_table(("id", "name", "scopes", "made"), rows)


@key.command(epilog=example("notifier key remove graph", "notifier key remove 2789d953"))
@click.argument("which")
@data_option
@json_option
def remove(which: str, data: Path | None, as_json: bool) -> None:
    """Remove a key, by its id or by a name that no other has; it opens nothing a second later."""
    with _book(data).changed() as keys:
        removed = meant(which, keys)
        keys.remove(removed)
    if as_json:
        print_json(facts(removed))
    else:
        print_facts(facts(removed))


def meant(which: str, keys: Sequence["ServiceKey"]) -> "ServiceKey":
    """Raises NotFound, and UsageError for a name that several have."""
    found = [each for each in keys if each.id == which] or [each for each in keys if each.name == which]
    if not found:
        raise NotFound(f"No key has the id or the name {which}.")
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} keys are named {which}; give the id of one: `notifier key list`.")
    return found[0]


def facts(each: "ServiceKey") -> dict[str, object]:
    return {"id": each.id, "name": each.name, "scopes": list(each.scopes), "made_at": stamp(each.made_at)}


def _book(data: Path | None) -> "KeyBook":
    """Its hashes are made with the folder's secret."""
    from notifier.api.auth.service_keys import KeyBook, keys_of
    from notifier.cli.context import require_folder

    settings = settings_for(data)
    if not (settings.secret and settings.service_keys):
        require_folder(settings.data)
    return KeyBook.of(settings, keys_of(settings))
