"""The group of all verbs: each is imported when it is asked for, and every refusal ends in a sentence and a code."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import click

from notifier.domain.errors import NotifierError, Refused

USAGE = 2
ENVIRONMENT = 3


class Verbs(click.Group):
    def __init__(self, *args: Any, places: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.places = places
        """Verb to `module:name`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verb, place in self.places.items() if find_spec(place.partition(":")[0])]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module, _, name = self.places[cmd_name].partition(":")
        found = getattr(import_module(module), name)
        assert isinstance(found, click.Command)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NotifierError as error:
            click.echo(str(error), err=True)
            ctx.exit(exit_code(error))


def exit_code(error: NotifierError) -> int:
    """What the caller did wrong is his to mend; everything else is this machine's."""
    return USAGE if isinstance(error, Refused) else ENVIRONMENT


def example(*lines: str) -> str:
    """The epilog of a verb's help, kept as it is written."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def installed_version() -> str:
    try:
        return version("notifier")
    except PackageNotFoundError:
        return "from source"
