"""Command groups with lazy imports and one-line error messages."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from notifier.cli.output import without_control_characters
from notifier.domain.errors import NotifierError, Refused

USAGE_EXIT_CODE = 2
ENVIRONMENT_EXIT_CODE = 3
"""Exit code for an unusable machine or data folder, or an outage."""


class OneLineUsageError(click.ClickException):
    exit_code = USAGE_EXIT_CODE

    def show(self, file: Any = None) -> None:
        click.echo(self.message, file=file, err=file is None)


class CommandGroup(click.Group):
    """Group whose help lists the commands in their order of definition, each with its whole first sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, cmd.get_short_help_str(1_000)) for name, cmd in commands if cmd and not cmd.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"Unknown command {args[0]!r}{suggestion(args[0], self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)


class ErrorReportingGroup(CommandGroup):
    """The outermost group: reports usage errors and NotifierErrors in one line."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with one_line_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with one_line_errors():
                return super().invoke(ctx)
        except NotifierError as error:
            click.echo(without_control_characters(str(error)), err=True)
            ctx.exit(exit_code(error))


class LazyCommands(ErrorReportingGroup):
    """Commands that are imported on demand, so that one command doesn't import the modules of all others."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        """Location of each command as `module:name`, by section of the help."""
        self.locations = {cmd: location for section in sections.values() for cmd, location in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [cmd for cmd, location in self.locations.items() if find_spec(location.partition(":")[0])]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            for title, section in self.sections.items():
                rows = [(name, cmd.get_short_help_str(1_000)) for name in section if (cmd := commands.get(name))]
                with formatter.section(title):
                    formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module, _, name = self.locations[cmd_name].partition(":")
        cmd = getattr(import_module(module), name)
        assert isinstance(cmd, click.Command)
        return cmd


@contextmanager
def one_line_errors() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        message = " ".join(error.format_message().split()).replace(". Did you mean", "; did you mean")
        hint = f" See `{error.ctx.command_path} --help`." if error.ctx else ""
        raise OneLineUsageError(message.rstrip(".") + ("" if message.endswith("?") else ".") + hint) from error


def suggestion(typed: str, valid_names: list[str]) -> str:
    """Return the end of an error message: the most similar valid name, or a period if none is similar."""
    matches = get_close_matches(typed, valid_names, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else "."


def exit_code(error: NotifierError) -> int:
    return USAGE_EXIT_CODE if isinstance(error, Refused) else ENVIRONMENT_EXIT_CODE


def example(*lines: str) -> str:
    """Format example lines as the epilog of a help text, without rewrapping."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


# How to call this program from the current folder, so that users can copy printed commands.

PROGRAM_NAME = "notifier"


def program_command(argv0: str | None = None, current_folder: Path | None = None, path: str | None = None) -> str:
    """Return the command with which a user starts this program. The arguments default to the values of this process."""
    invoked_as, current_folder = sys.argv[0] if argv0 is None else argv0, current_folder or Path.cwd()
    if Path(invoked_as).name == "__main__.py":
        return f"{_shorter_path(Path(sys.executable), current_folder)} -m {PROGRAM_NAME}"
    if Path(invoked_as).name != PROGRAM_NAME:  # another program, such as pytest, calls this module
        return PROGRAM_NAME
    program = (
        current_folder / invoked_as if os.sep in invoked_as else Path(shutil.which(invoked_as, path=path) or invoked_as)
    )
    return PROGRAM_NAME if _is_on_path(program, path) else _shorter_path(program, current_folder)


def _is_on_path(program: Path, path: str | None) -> bool:
    on_path = shutil.which(PROGRAM_NAME, path=path)
    return on_path is not None and program.exists() and os.path.samefile(on_path, program)


def _shorter_path(path: Path, current_folder: Path) -> str:
    """Return the absolute or the relative path, whichever is shorter, quoted for a shell.

    Resolves no links: a virtual environment's Python is a link to a Python without this package.
    """
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute, current_folder)
    if os.sep not in relative:
        relative = os.path.join(os.curdir, relative)
    return shlex.quote(min(absolute, relative, key=len))
