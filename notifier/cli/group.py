"""The group of all verbs: each is imported when it is asked for, and every refusal ends in a sentence and a code."""

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

from notifier.cli.output import harmless
from notifier.domain.errors import NotifierError, Refused

USAGE = 2
ENVIRONMENT = 3


class Sentence(click.ClickException):
    """Wrong usage on one line, where click would print three."""

    exit_code = USAGE

    def show(self, file: Any = None) -> None:
        click.echo(self.message, file=file, err=file is None)


class Family(click.Group):
    """Verbs that belong together: listed with their whole first sentence, in the order in which they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, verb.get_short_help_str(1_000)) for name, verb in found if verb and not verb.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"There is no command {args[0]!r}{near(args[0], self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)


class Program(Family):
    """A command line by itself: whatever is refused ends in one line and an exit code."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with on_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with on_one_line():
                return super().invoke(ctx)
        except NotifierError as error:
            click.echo(harmless(str(error)), err=True)
            ctx.exit(exit_code(error))


class Verbs(Program):
    """The commands of `notifier`, each imported when it is called."""

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


@contextmanager
def on_one_line() -> Iterator[None]:
    """Wrong usage in one line that ends with where to read on; who asks for nothing at all gets the help."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        said = " ".join(error.format_message().split()).replace(". Did you mean", "; did you mean")
        ask = f" See `{error.ctx.command_path} --help`." if error.ctx else ""
        raise Sentence(said.rstrip(".") + ("" if said.endswith("?") else ".") + ask) from error


def near(word: str, words: list[str]) -> str:
    """What was probably meant."""
    found = get_close_matches(word, words, n=1)
    return f"; did you mean {found[0]!r}?" if found else "."


def exit_code(error: NotifierError) -> int:
    """What the caller did wrong is his to mend; everything else is this machine's."""
    return USAGE if isinstance(error, Refused) else ENVIRONMENT


def example(*lines: str) -> str:
    """The epilog of a verb's help, kept as it is written."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


# Spelling: how this very command is typed again from where one stands, so that a line that is shown can be copied.

OURS = "notifier"


def command(argv0: str | None = None, here: Path | None = None, path: str | None = None) -> str:
    """`notifier` where that finds the one that runs; else its path, or the Python that runs it, as short as it gets.

    Without an argument: of this process, the folder it stands in and its PATH.
    """
    began, here = sys.argv[0] if argv0 is None else argv0, here or Path.cwd()
    if Path(began).name == "__main__.py":
        return f"{_short(Path(sys.executable), here)} -m {OURS}"
    if Path(began).name != OURS:  # somebody else's program that calls us
        return OURS
    typed = here / began if os.sep in began else Path(shutil.which(began, path=path) or began)
    return OURS if _found_by_name(typed, path) else _short(typed, here)


def _found_by_name(typed: Path, path: str | None) -> bool:
    found = shutil.which(OURS, path=path)
    return found is not None and typed.exists() and os.path.samefile(found, typed)


def _short(path: Path, here: Path) -> str:
    """No link is followed: the Python of a virtual environment is a link to one that knows nothing of us."""
    whole = os.path.abspath(path)
    relative = os.path.relpath(whole, here)
    if os.sep not in relative:
        relative = os.path.join(os.curdir, relative)
    return shlex.quote(min(whole, relative, key=len))
