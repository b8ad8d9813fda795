"""Progress of what takes a while."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from notifier.cli.output import console, watched


class Advance(Protocol):
    def __call__(self, done: int, more: int | None = None) -> None:
        """So many steps more, with so many of what is counted; those steps, unless it is said."""
        ...


@contextmanager
def progress(doing: str, steps: int | None, *, quiet: bool, counted: str = "") -> Iterator[Advance]:
    """A bar where somebody watches, silence elsewhere. `counted` names what a rate is shown of."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    seen = not quiet and watched(sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn())
    left = (TextColumn("left"), TimeRemainingColumn()) if counted and steps is not None else ()
    with Progress(*columns, *left, console=console(sys.stderr), transient=True, disable=not seen) as shown:
        task, total = shown.add_task(doing, total=steps, rate=""), 0

        def advance(done: int, more: int | None = None) -> None:
            nonlocal total
            total += done if more is None else more
            spent = shown.tasks[task].elapsed or 0
            rate = f"{total:,} {counted}, {total / spent:,.0f}/s" if counted and spent else ""
            shown.update(task, advance=done, rate=rate)

        yield advance
