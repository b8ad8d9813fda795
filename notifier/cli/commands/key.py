"""Command `notifier key`: manages service keys and their scopes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from notifier.cli.command_groups_and_errors import CommandGroup, example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import iso_time, print_fields, print_json, print_sentence, print_table
from notifier.domain.errors import NotFound

if TYPE_CHECKING:
    from notifier.api.auth.service_and_installation_keys import ServiceKey, ServiceKeyFile

SCOPES = ("events", "follows", "accounts", "activity", "operate", "read-metrics")
"""Copy of the scopes in the module of service keys, whose import slows down the help. A test compares them."""


@click.group(cls=CommandGroup, epilog=example("notifier key list"))
def key() -> None:
    """Add, list and remove the keys of services. Each key has scopes.

    Running API processes apply changes within a second. To rotate a key, add a second key with the same name and give
    it to the service. Then remove the old key by its id.
    """


@key.command(epilog=example("notifier key add graph --scope follows", "notifier key add grafana --scope read-metrics"))
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    required=True,
    help="Scope of the key; may be repeated.",
)
@data_option
@json_option
def add(name: str, scopes: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Create a key and print it. It can't be shown again: only its hash is stored."""
    from datetime import UTC, datetime

    from notifier.api.auth.service_and_installation_keys import Scope, is_valid_service_name, new_key

    if not is_valid_service_name(name):
        raise click.UsageError(
            f"Invalid key name {name!r}: use at most 64 lowercase letters, digits, dots, dashes and underscores."
        )
    key_file = _key_file(data)
    key_text, stored = new_key(name, {Scope(scope) for scope in scopes}, key_file.pepper, datetime.now(UTC))
    with key_file.edit() as keys:
        keys.append(stored)
    if as_json:
        print_json({**key_json(stored), "key": key_text})
    else:
        click.echo(key_text)


@key.command("list", epilog=example("notifier key list"))
@data_option
@json_option
def list_keys(data: Path | None, as_json: bool) -> None:
    """List ids, names and scopes of the keys, oldest first."""
    keys = _key_file(data).read()
    if as_json:
        print_json([key_json(key_) for key_ in keys])
    elif not keys:
        print_sentence("The only key is the main service key, which has all scopes.")
    else:
        rows = [(key_.id, key_.name, " ".join(key_.scopes), key_.made_at) for key_ in keys]
        print_table(("id", "name", "scopes", "created"), rows)


@key.command(epilog=example("notifier key remove graph", "notifier key remove 2789d953"))
@click.argument("id_or_name")
@data_option
@json_option
def remove(id_or_name: str, data: Path | None, as_json: bool) -> None:
    """Remove a key by its id or unique name. The key stops working within a second."""
    with _key_file(data).edit() as keys:
        removed = selected_key(id_or_name, keys)
        keys.remove(removed)
    if as_json:
        print_json(key_json(removed))
    else:
        print_fields(key_json(removed))


def selected_key(id_or_name: str, keys: Sequence["ServiceKey"]) -> "ServiceKey":
    """Return the key with this id or name. Raises NotFound, and UsageError if several keys have the name."""
    matches = [key_ for key_ in keys if key_.id == id_or_name] or [key_ for key_ in keys if key_.name == id_or_name]
    if not matches:
        raise NotFound(f"No key has the id or name {id_or_name}.")
    if len(matches) > 1:
        raise click.UsageError(f"{len(matches)} keys are named {id_or_name}; give an id from `notifier key list`.")
    return matches[0]


def key_json(service_key: "ServiceKey") -> dict[str, object]:
    return {
        "id": service_key.id,
        "name": service_key.name,
        "scopes": list(service_key.scopes),
        "made_at": iso_time(service_key.made_at),
    }


def _key_file(data: Path | None) -> "ServiceKeyFile":
    from notifier.api.auth.service_and_installation_keys import ServiceKeyFile, installation_keys
    from notifier.cli.opened_stores import require_folder

    settings = settings_for(data)
    if not (settings.secret and settings.service_keys):
        require_folder(settings.data)
    return ServiceKeyFile.of(settings, installation_keys(settings))
