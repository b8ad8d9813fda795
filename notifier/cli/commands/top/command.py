"""`notifier top`: what the system does right now, live in a terminal, once in a pipe."""

import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Signal
from typing import TYPE_CHECKING

import click

from notifier.cli.group import example
from notifier.cli.options import Between, data_option, json_option, settings_for
from notifier.cli.output import console, watched
from notifier.domain.errors import Unavailable

if TYPE_CHECKING:
    from notifier.cli.commands.top.snapshot import Glance

QUITS = {"q", "Q", "\x03", "\x1b", ""}
"""The empty one: whoever typed is gone."""


@click.command(epilog=example("notifier top", "notifier top --once", "notifier top --json | jq .pools"))
@click.option("--once", is_flag=True, help="Look once and end, as in a pipe.")
@click.option("--every", type=Between(0.05, 60), default=1.0, show_default=True, help="Seconds between looks.")
@data_option
@json_option
def top(*, once: bool, every: float, data: Path | None, as_json: bool) -> None:
    """Show what the system does right now: rates, bursts, how far each pool is behind, throttles, processes.

    On a terminal it goes on until q or Ctrl-C. Reads the data folder, and works while nothing runs on it.
    """
    from notifier.cli.commands.top.snapshot import facts, glance
    from notifier.cli.commands.top.view import print_plain
    from notifier.cli.context import opened, overview_of
    from notifier.cli.output import print_json

    settings = settings_for(data)
    with opened(settings) as folder:
        overview = overview_of(folder.ports, settings)

        def look() -> "Glance":
            return glance(overview, folder.ports, settings)

        look()  # how many mentions a second there are takes two looks
        if watched() and sys.stdin.isatty() and not once and not as_json:
            live(look, every)
            return
        Signal().wait(every)
        found = look()
    if as_json:
        print_json(facts(found))
    else:
        print_plain(found)


def live(look: "Callable[[], Glance]", every: float) -> None:
    """Until q or Ctrl-C. A store that doesn't answer for a while is told of, over the last facts."""
    from rich.live import Live

    from notifier.cli.commands.top.view import picture

    screen, found, said = console(), None, ""
    with keys() as pressed, Live(console=screen, screen=True, auto_refresh=False) as shown:
        while True:
            try:
                found, said = look(), ""
            except Unavailable as error:
                said = str(error)
            if found is not None:
                shown.update(picture(found, screen.width, said), refresh=True)
            if pressed(every):
                return


@contextmanager
def keys() -> "Iterator[Callable[[float], bool]]":
    """Whether a key that ends it was pressed within so many seconds; the terminal is given back as it was."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def pressed(within: float) -> bool:
        ready, _, _ = select.select([sys.stdin], [], [], within)
        return bool(ready) and sys.stdin.read(1) in QUITS

    try:
        yield pressed
    except KeyboardInterrupt:
        return
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
