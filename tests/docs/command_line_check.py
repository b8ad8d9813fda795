"""Checks that the command line accepts arguments, without running the command."""

import sys
from collections.abc import Sequence

import click

from notifier.cli import main


def check_command(arguments: Sequence[str], program: click.Command = main) -> None:
    """Raise UsageError for an unknown option, command or value."""
    command: click.Command | None = program
    remaining = list(arguments)
    while isinstance(command, click.Group):
        _, command, remaining = command.resolve_command(click.Context(command), remaining)
    assert command
    command.make_context(command.name, remaining)


if __name__ == "__main__":
    try:
        check_command(sys.argv[1:])
    except click.exceptions.Exit as exit_:  # raised by --help
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        sys.exit(error.format_message())
