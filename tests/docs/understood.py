"""Whether the command line understands these words; it does nothing with them."""

import sys
from collections.abc import Sequence

import click

from notifier.cli import main


def understood(words: Sequence[str], program: click.Command = main) -> None:
    """Raises UsageError for an option, a command or a value that doesn't exist."""
    command: click.Command | None = program
    rest = list(words)
    while isinstance(command, click.Group):
        _, command, rest = command.resolve_command(click.Context(command), rest)
    assert command
    command.make_context(command.name, rest)


if __name__ == "__main__":
    try:
        understood(sys.argv[1:])
    except click.exceptions.Exit as done:  # --help
        sys.exit(done.exit_code)
    except click.ClickException as error:
        sys.exit(error.format_message())
